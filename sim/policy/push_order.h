#pragma once
// In which order blocks are worth sending: all blocks of the layers that select,
// best first. Ties: lower layer, then lower block, so that the order is total.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kv/importance.h"
#include "sim/kv/kv_layout.h"
#include "sim/policy/strategy_options.h"

namespace kvlane {

struct BlockRef {
  std::uint16_t layer = 0;
  std::uint16_t block = 0;
  bool operator==(const BlockRef&) const = default;
};

struct BlockOrder {
  std::vector<BlockRef> blocks;
  std::vector<float> weight;  // expected share of all selected rows, by rank; sums to 1 or is empty
};

// What the orders are made from. `own_queries` and `totals` belong to the request, the profile does
// not.
struct OrderInputs {
  const KvLayout* layout = nullptr;
  const ImportanceProfile* profile = nullptr;
  // [layer] -> counts by block, empty where unknown
  std::vector<std::span<const std::uint32_t>> own_queries;
  std::vector<std::span<const std::uint32_t>> totals;
  std::uint64_t seed = 1;  // PushOrder::random
  std::uint32_t request = 0;
};

bool needs_profile(PushOrder order);
bool needs_own_queries(PushOrder order);
bool needs_totals(PushOrder order);

// PushOrder::none gives an empty proactive order; its background order is the profile's.
BlockOrder make_order(PushOrder order, const OrderInputs& inputs);

}  // namespace kvlane
