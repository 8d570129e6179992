#pragma once
// What the cost model says about the shape of a sample: one kernel alone, on one GPU.

#include <optional>

#include "sim/gpu/cost_model.h"
#include "sim/gpu/sample.h"

namespace kvlane {

class SampleCost {
 public:
  explicit SampleCost(const GpuSpec& gpu);
  // Seconds by the formulas; none for kernels that a cost model of one GPU does not have (links,
  // whole serving steps), for ranks without an all-reduce, and for mixed batches where they are not
  // fitted.
  std::optional<double> seconds(const Sample& sample) const;

 private:
  CostModel bf16_, fp8_;  // by the width of weights and KV
};

// The shape under which a table (grid_table.h) holds a sample: attention of one rank, several
// prompts as more heads. None for kernels that no table answers.
std::optional<KernelShape> table_shape(const Sample& sample);

}  // namespace kvlane
