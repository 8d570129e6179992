#pragma once
// Kernels: every machine's formula, and its table, against measurements that were held out of the
// fits, and against sources that no fit has seen.

#include <vector>

#include "calibrate/validate/validation_row.h"
#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// gemm, prefill, prefix, decode, mixed, collective, elementwise by machine and source: a row over
// the domain of the fit, rows by region beside it. Sources that were fitted to count with the
// shapes held out, the others with all.
std::vector<ValidationRow> kernel_rows(const std::vector<Sample>& samples,
                                       const std::vector<GpuSpec>& gpus,
                                       const PointSink& points = nullptr);

// table_*: the table of half of the shapes, asked for the other half where it covers it.
std::vector<ValidationRow> table_rows(const std::vector<Sample>& samples,
                                      const std::vector<GpuSpec>& gpus);

// *_between_sources: other sources' measurements against the fitted one's table, as the floor under
// any claim about that kernel.
std::vector<ValidationRow> disagreement_rows(const std::vector<Sample>& samples,
                                             const std::vector<GpuSpec>& gpus);

}  // namespace kvlane::calibrate
