#pragma once
// A GPU as a Device. These files need the standard library and kernels/*/cuda.h only, and no CUDA
// headers: nvcc's kernels stand behind them, or the tests' executor.

#include <cstdint>
#include <functional>
#include <memory>

#include "calibrate/measure/device.h"
#include "kernels/kv_gather/kernel.h"

namespace kvlane::calibrate {

// Collects rows in host memory, for the way to gather that packs there: kernels::cpu::kv_gather, or
// kernels::ref::kv_gather where there is no SIMD. Empty: that way is not measured.
using HostGather = std::function<void(const kernels::KvGather&)>;

// GPU `number`, of compute capability 7.5 or newer. Throws NoDevice where there is no such GPU, and
// std::runtime_error where CUDA fails. `threads`: the host's, for the load gate. `operands`: bytes
// for values and for results each, on the device and in pinned memory; 0: a part of what is free.
std::unique_ptr<Device> open_gpu_device(int number, int threads, std::int64_t operands,
                                        HostGather gather);

}  // namespace kvlane::calibrate
