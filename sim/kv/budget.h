#pragma once
// How many KV blocks the proactive path may send, and what is left of them after what must be sent
// anyway (docs/system.md 3).

#include <cstdint>

#include "sim/base/units.h"

namespace kvlane {

// K_r = L M (T_p / T_t) ((L - 1) / L) blocks, rounded down, at most L M. `transfer`: time that all
// KV needs at the bandwidth this request gets; 0 means an infinite link.
std::int64_t proactive_blocks(std::int64_t layers, std::int64_t blocks_per_layer, Duration prefill,
                              Duration transfer);

// The same in bytes of `total`, for layers whose blocks differ in size.
Bytes proactive_bytes(std::int64_t layers, Bytes total, Duration prefill, Duration transfer);

// Mandatory bytes (dense layers, selection metadata) are sent whatever the budget says.
struct BudgetSplit {
  Bytes mandatory{0};  // sent in any case
  Bytes free{0};       // for the blocks that the policy picks
  Bytes excess{0};     // mandatory beyond the budget; it shows up in the time to second token
};
BudgetSplit split_budget(Bytes budget, Bytes mandatory);

}  // namespace kvlane
