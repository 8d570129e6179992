#pragma once
// Importance profile I[layer][block]: mean frequency with which rows of the block are selected,
// measured offline on other texts (arXiv 2607.28150), and the orders that follow from it. Weights
// are rounded to whole millionths before they are compared and ties go to the lower layer, then the
// lower block, so that an order is the same on every machine.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kv/kv_layout.h"

namespace kvlane {

struct ImportanceProfile {
  std::int64_t blocks = 0;
  std::vector<std::vector<float>> weight;  // [layer][block], empty for layers that do not select
};

struct RankedBlock {
  std::uint32_t layer = 0;
  std::uint32_t block = 0;
  bool operator==(const RankedBlock&) const = default;
};

// Indices of `weight` by falling weight, ties by rising index. Not-a-number counts as 0.
std::vector<std::uint32_t> order_descending(std::span<const float> weight);
std::vector<std::uint32_t> order_descending(std::span<const std::uint32_t> weight);

// All blocks of the layers that are not dense, most important first over all layers. A layer
// without weights comes last, from its start. A profile of another block count is read at the same
// relative position.
std::vector<RankedBlock> rank_blocks(const ImportanceProfile& profile, const KvLayout& layout);

// The longest prefix of `ranked` whose bytes fit into `budget`, by layer, each layer's blocks still
// most important first. [layer]
std::vector<std::vector<std::uint32_t>> take_blocks(std::span<const RankedBlock> ranked,
                                                    const KvLayout& layout, Bytes budget);

}  // namespace kvlane
