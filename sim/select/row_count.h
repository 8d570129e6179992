#pragma once
// How many rows a kv head selects at each step, and the threshold of z that selects as many.

#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/select/selection_spec.h"

namespace kvlane::select {

inline constexpr std::int64_t kSinks = 4;          // first tokens, always selected
inline constexpr std::int64_t kVirtualSteps = 32;  // own queries: steps -32 .. -1

// Recency term of z with its sign turned: g ln(1 + age / a0).
double recency(const LayerSelection& layer, double age);

struct CountRule {
  SelectCount count = SelectCount::cap;
  double cap = 0.20;
};

// Rows a head selects at the steps -kVirtualSteps .. steps - 1, sinks and generated rows included.
//   cap:       floor(cap (p + 1)), p = T + s the position of the query
//   threshold: ln n(s) = ln(n T) + sigma_between B + sigma_n e(s) - half the variances, e AR(1);
//              B once a text and layer (a text's mean is at most the cap too); at most the cap, at
//              least one row beside the sinks.
// e is drawn forwards from step 0 and backwards from it, so that adding steps moves nothing.
std::vector<std::int64_t> row_counts(const LayerSelection& layer, const CountRule& rule,
                                     std::int64_t prompt_tokens, std::int64_t steps, Rng forward,
                                     Rng backward);

// theta(s), such that the expected number of rows with z > theta(s), sinks apart, is the count.
std::vector<double> thresholds(const LayerSelection& layer, std::int64_t prompt_tokens,
                               const std::vector<std::int64_t>& counts);

}  // namespace kvlane::select
