#pragma once
// What an engine would take for whole prompts and steps if its GPUs did nothing but the cost
// model's kernels: the prediction that end-to-end measurements are held against. No constant of it
// is fitted to an end-to-end measurement.

#include <cstdint>

#include "sim/gpu/cost_model.h"

namespace kvlane::calibrate {

class ServingTime {
 public:
  explicit ServingTime(const CostModel& cost) : cost_(cost) {}

  // `sequences` prompts of `tokens` in one launch a layer, to their first tokens. Seconds.
  double prefill(std::int64_t sequences, std::int64_t tokens) const;
  // One decode iteration over `sequences` of `kv_tokens` each.
  double step(std::int64_t sequences, std::int64_t kv_tokens) const;
  // A static batch: prefill, then `output` - 1 steps.
  double batch(std::int64_t sequences, std::int64_t prompt, std::int64_t output) const;
  // Mean gap between the tokens of a request while `sequences` are always being served: a step half
  // way through the output, and the prefills that start meanwhile, (sequences - 1) / output a step.
  double token_gap(std::int64_t sequences, std::int64_t prompt, std::int64_t output) const;

 private:
  const CostModel& cost_;
};

}  // namespace kvlane::calibrate
