#pragma once
// End to end: static batches, mean gaps between tokens and prefill times of real engines against
// the cost model's kernels.

#include <functional>
#include <vector>

#include "calibrate/validate/validation_row.h"
#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"
#include "sim/kv/model_spec.h"

namespace kvlane::calibrate {

// A model by the name that a table of measurements gives it; null: none of ours, its rows are left
// out.
using ModelLookup = std::function<const ModelSpec*(const std::string& name)>;

// Rows `e2e_static`, `e2e_tpot`, `e2e_prefill` by machine, engine and model. TensorRT-LLM runs its
// 8-bit models with 8-bit KV, the others with 16-bit KV.
std::vector<ValidationRow> serving_rows(const std::vector<Sample>& samples,
                                        const std::vector<GpuSpec>& gpus, const ModelLookup& model,
                                        const PointSink& points = nullptr);

}  // namespace kvlane::calibrate
