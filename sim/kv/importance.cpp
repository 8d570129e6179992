#include "sim/kv/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvlane {
namespace {

std::int64_t millionths(float weight) {
  if (std::isnan(weight)) return 0;
  return std::llround(std::clamp(static_cast<double>(weight), -1e12, 1e12) * 1e6);
}

template <class Key>
std::vector<std::uint32_t> order_by(std::size_t count, Key key) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(a) > key(b); });
  return order;
}

}  // namespace

std::vector<std::uint32_t> order_descending(std::span<const float> weight) {
  std::vector<std::int64_t> rounded(weight.size());
  std::transform(weight.begin(), weight.end(), rounded.begin(), millionths);
  return order_by(rounded.size(), [&](std::uint32_t i) { return rounded[i]; });
}

std::vector<std::uint32_t> order_descending(std::span<const std::uint32_t> weight) {
  return order_by(weight.size(), [&](std::uint32_t i) { return weight[i]; });
}

std::vector<RankedBlock> rank_blocks(const ImportanceProfile& profile, const KvLayout& layout) {
  struct Entry {
    std::int64_t weight;
    RankedBlock block;
  };
  const std::int64_t blocks =
      (layout.prompt_tokens() + layout.tokens_per_block() - 1) / layout.tokens_per_block();
  std::vector<Entry> entries;
  for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
    const LayerLayout& layer = layout.layer(l);
    if (layer.dense) continue;
    const bool known = l < profile.weight.size() && !profile.weight[l].empty();
    for (std::int64_t m = layer.first_block; m < layer.first_block + layer.block_count; ++m) {
      std::int64_t weight = -1;
      if (known) {
        // Centre of the block, in the profile's blocks: the same share of the prompt.
        const auto bins = std::ssize(profile.weight[l]);
        const std::int64_t bin = std::min((2 * m + 1) * bins / (2 * blocks), bins - 1);
        weight =
            std::max<std::int64_t>(millionths(profile.weight[l][static_cast<std::size_t>(bin)]), 0);
      }
      entries.push_back({weight, {static_cast<std::uint32_t>(l), static_cast<std::uint32_t>(m)}});
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.weight > b.weight; });
  std::vector<RankedBlock> ranked(entries.size());
  std::transform(entries.begin(), entries.end(), ranked.begin(),
                 [](const Entry& e) { return e.block; });
  return ranked;
}

std::vector<std::vector<std::uint32_t>> take_blocks(std::span<const RankedBlock> ranked,
                                                    const KvLayout& layout, Bytes budget) {
  std::vector<std::vector<std::uint32_t>> taken(static_cast<std::size_t>(layout.layer_count()));
  for (const RankedBlock& block : ranked) {
    const Bytes bytes = layout.block_bytes(block.layer, block.block);
    if (bytes > budget) break;
    budget -= bytes;
    taken[block.layer].push_back(block.block);
  }
  return taken;
}

}  // namespace kvlane
