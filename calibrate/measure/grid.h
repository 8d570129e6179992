#pragma once
// The shapes to measure: what the models that ship visit, from one query to long prompts.

#include <vector>

#include "calibrate/measure/memory_grid.h"
#include "sim/gpu/sample.h"
#include "sim/kv/model_spec.h"

namespace kvlane::calibrate {

// Samples with kernel, shape, dtype and, where a kernel has several, variant; all else is empty.
// Kernel after kernel, each from little work to much, so that what takes too long is seen coming.
// `gemm_dtype`: "fp32" on a CPU (kernels/gemm), "bf16" on a GPU.
std::vector<Sample> kernel_grid(const std::vector<ModelSpec>& models, const char* gemm_dtype,
                                GridSize size);

}  // namespace kvlane::calibrate
