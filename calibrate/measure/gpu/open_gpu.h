#pragma once
// The GPU of `kvlane calibrate`, whose rows the host collects with the CPU's kernels.

#include <cstdint>
#include <memory>

#include "calibrate/measure/device.h"

namespace kvlane::calibrate {

// An OpenGpu.
std::unique_ptr<Device> open_gpu(int number, int threads, std::int64_t operands);

}  // namespace kvlane::calibrate
