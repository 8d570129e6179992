#pragma once
// The shapes to measure: what the models that ship visit, from one query to long prompts.

#include <cstdint>
#include <vector>

#include "sim/gpu/sample.h"
#include "sim/kv/model_spec.h"

namespace kvlane::calibrate {

enum class GridSize : std::uint8_t { full, quick };  // quick: few and small, to see that all works

// Samples with kernel, shape, dtype and, where a kernel has several, variant; all else is empty.
// Kernel after kernel, each from little work to much, so that what takes too long is seen coming.
// `gemm_dtype`: "fp32" on a CPU (kernels/gemm), "bf16" on a GPU.
std::vector<Sample> kernel_grid(const std::vector<ModelSpec>& models, const char* gemm_dtype,
                                GridSize size);

// Memory of the device: a copy and a streaming read over sizes. Ways beside that of all threads are
// set aside from fits.
std::vector<Sample> memory_grid(bool cpu, GridSize size);
// Between host and device, one way, both at once, pinned or not; on a CPU copies in memory.
std::vector<Sample> link_grid(bool cpu, GridSize size);

// Variants of `copy`.
inline constexpr const char* kMemoryCopy = "memory copy";
inline constexpr const char* kMemoryCopyOneThread = "memory copy, one thread";
inline constexpr const char* kMemoryCopyBothWays = "memory copy, both ways at once";
inline constexpr const char* kToDevice = "host to device, pinned";
inline constexpr const char* kToHost = "device to host, pinned";
inline constexpr const char* kBothWays = "both ways at once, pinned";
inline constexpr const char* kToDevicePageable = "host to device, pageable";
inline constexpr const char* kToHostPageable = "device to host, pageable";

}  // namespace kvlane::calibrate
