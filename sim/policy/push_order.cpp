#include "sim/policy/push_order.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/base/check.h"
#include "sim/base/rng.h"

namespace kvlane {
namespace {

constexpr std::int64_t kSinkTokens = 4;

struct LayerRange {
  std::uint32_t layer;
  std::uint32_t first;
  std::uint32_t count;
};

std::vector<LayerRange> selecting_layers(const KvLayout& layout) {
  std::vector<LayerRange> ranges;
  for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
    const LayerLayout& layer = layout.layer(l);
    if (!layer.dense && layer.block_count > 0) {
      ranges.push_back({static_cast<std::uint32_t>(l),
                        static_cast<std::uint32_t>(layer.first_block),
                        static_cast<std::uint32_t>(layer.block_count)});
    }
  }
  return ranges;
}

// Blocks of a layer from the most wanted by position alone: the sinks, then the newest.
std::vector<std::uint32_t> sinks_then_newest(const KvLayout& layout, const LayerRange& range) {
  std::vector<std::uint32_t> blocks;
  blocks.reserve(range.count);
  const auto per_block = static_cast<std::uint32_t>(layout.tokens_per_block());
  const std::uint32_t sinks =
      std::min(range.count, std::max<std::uint32_t>(1, kSinkTokens / std::max(1U, per_block)));
  for (std::uint32_t b = 0; b < sinks; ++b) blocks.push_back(range.first + b);
  for (std::uint32_t b = range.count; b > sinks; --b) blocks.push_back(range.first + b - 1);
  return blocks;
}

// Non-negative floats order like their bit patterns: a key that sorts best first, ties by position.
std::uint64_t key_of(float score, std::uint32_t position) {
  KVLANE_CHECK(score >= 0, "importance must not be negative: {}", score);
  return (static_cast<std::uint64_t>(~std::bit_cast<std::uint32_t>(score + 0.0F)) << 32U) |
         position;
}

class Scores {
 public:
  explicit Scores(const std::vector<LayerRange>& ranges) {
    std::size_t n = 0;
    for (const LayerRange& r : ranges) n += r.count;
    refs_.reserve(n);
    scores_.reserve(n);
  }
  void add(std::uint32_t layer, std::uint32_t block, float score) {
    refs_.push_back({static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(block)});
    scores_.push_back(score);
  }
  BlockOrder sorted(bool with_weight) const {
    std::vector<std::uint64_t> keys(refs_.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = key_of(scores_[i], static_cast<std::uint32_t>(i));
    }
    std::sort(keys.begin(), keys.end());
    BlockOrder order;
    order.blocks.reserve(keys.size());
    double total = 0;
    for (const std::uint64_t key : keys) {
      order.blocks.push_back(refs_[static_cast<std::uint32_t>(key)]);
      total += scores_[static_cast<std::uint32_t>(key)];
    }
    if (with_weight && total > 0) {
      order.weight.reserve(keys.size());
      for (const std::uint64_t key : keys) {
        order.weight.push_back(
            static_cast<float>(scores_[static_cast<std::uint32_t>(key)] / total));
      }
    }
    return order;
  }

 private:
  std::vector<BlockRef> refs_;
  std::vector<float> scores_;
};

// Scales a score table to a sum of 1 over the selecting layers.
template <class At>
double total_of(const std::vector<LayerRange>& ranges, At at) {
  double total = 0;
  for (const LayerRange& r : ranges) {
    for (std::uint32_t b = 0; b < r.count; ++b) total += at(r.layer, r.first + b);
  }
  return total;
}

BlockOrder by_score(const std::vector<LayerRange>& ranges, auto at) {
  Scores scores(ranges);
  for (const LayerRange& r : ranges) {
    for (std::uint32_t b = r.first; b < r.first + r.count; ++b) {
      scores.add(r.layer, b, static_cast<float>(at(r.layer, b)));
    }
  }
  return scores.sorted(true);
}

BlockOrder random_order(const std::vector<LayerRange>& ranges, const OrderInputs& inputs) {
  BlockOrder order;
  for (const LayerRange& r : ranges) {
    for (std::uint32_t b = r.first; b < r.first + r.count; ++b) {
      order.blocks.push_back({static_cast<std::uint16_t>(r.layer), static_cast<std::uint16_t>(b)});
    }
  }
  Rng rng(inputs.seed, fmt::format("push order/request {}", inputs.request));
  for (std::size_t i = order.blocks.size(); i > 1; --i) {
    std::swap(order.blocks[i - 1], order.blocks[rng.below(i)]);
  }
  return order;
}

// Every layer alike: rank by rank through all layers.
BlockOrder layers_alike(const KvLayout& layout, const std::vector<LayerRange>& ranges,
                        bool newest) {
  BlockOrder order;
  std::vector<std::vector<std::uint32_t>> per_layer;
  std::size_t longest = 0;
  for (const LayerRange& r : ranges) {
    if (newest) {
      per_layer.push_back(sinks_then_newest(layout, r));
    } else {
      per_layer.emplace_back(r.count);
      std::iota(per_layer.back().begin(), per_layer.back().end(), r.first);
    }
    longest = std::max(longest, per_layer.back().size());
  }
  for (std::size_t rank = 0; rank < longest; ++rank) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (rank < per_layer[i].size()) {
        order.blocks.push_back({static_cast<std::uint16_t>(ranges[i].layer),
                                static_cast<std::uint16_t>(per_layer[i][rank])});
      }
    }
  }
  return order;
}

BlockOrder layer_after_layer(const std::vector<LayerRange>& ranges) {
  BlockOrder order;
  for (const LayerRange& r : ranges) {
    for (std::uint32_t b = r.first; b < r.first + r.count; ++b) {
      order.blocks.push_back({static_cast<std::uint16_t>(r.layer), static_cast<std::uint16_t>(b)});
    }
  }
  return order;
}

// The layer's own profile values, best first, given to its blocks sinks first, then newest: any
// prefix of the order takes as many blocks of each layer as the profile would.
BlockOrder layer_totals_recency(const KvLayout& layout, const std::vector<LayerRange>& ranges,
                                const ImportanceProfile& profile) {
  Scores scores(ranges);
  for (const LayerRange& r : ranges) {
    std::vector<float> values(profile.weight[r.layer].begin() + r.first,
                              profile.weight[r.layer].begin() + r.first + r.count);
    std::sort(values.begin(), values.end(), std::greater<>());
    const std::vector<std::uint32_t> blocks = sinks_then_newest(layout, r);
    for (std::size_t i = 0; i < blocks.size(); ++i) scores.add(r.layer, blocks[i], values[i]);
  }
  return scores.sorted(true);
}

}  // namespace

bool needs_profile(PushOrder order) {
  return order == PushOrder::profile || order == PushOrder::layer_totals_recency ||
         order == PushOrder::own_queries_profile || order == PushOrder::none;
}
bool needs_own_queries(PushOrder order) {
  return order == PushOrder::own_queries || order == PushOrder::own_queries_profile;
}
bool needs_totals(PushOrder order) { return order == PushOrder::oracle; }

BlockOrder make_order(PushOrder order, const OrderInputs& in) {
  const KvLayout& layout = *in.layout;
  const std::vector<LayerRange> ranges = selecting_layers(layout);
  const auto profile_at = [&](std::uint32_t l, std::uint32_t b) {
    return static_cast<double>(in.profile->weight[l][b]);
  };
  const auto own_at = [&](std::uint32_t l, std::uint32_t b) {
    return static_cast<double>(in.own_queries[l][b]);
  };
  switch (order) {
    case PushOrder::sequential:
      return layer_after_layer(ranges);
    case PushOrder::sequential_tokens:
      return layers_alike(layout, ranges, false);
    case PushOrder::recency:
      return layers_alike(layout, ranges, true);
    case PushOrder::random:
      return random_order(ranges, in);
    case PushOrder::layer_totals_recency:
      return layer_totals_recency(layout, ranges, *in.profile);
    case PushOrder::none:
    case PushOrder::profile:
      return by_score(ranges, profile_at);
    case PushOrder::own_queries:
      return by_score(ranges, own_at);
    case PushOrder::oracle:
      return by_score(ranges, [&](std::uint32_t l, std::uint32_t b) {
        return static_cast<double>(in.totals[l][b]);
      });
    case PushOrder::own_queries_profile: {
      const double own_total = std::max(total_of(ranges, own_at), 1e-30);
      const double profile_total = std::max(total_of(ranges, profile_at), 1e-30);
      return by_score(ranges, [&](std::uint32_t l, std::uint32_t b) {
        return own_at(l, b) / own_total + profile_at(l, b) / profile_total;
      });
    }
  }
  KVLANE_CHECK(false, "unknown push order");
}

}  // namespace kvlane
