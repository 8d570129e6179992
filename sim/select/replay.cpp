#include "sim/select/replay.h"

#include <algorithm>
#include <optional>

#include "sim/base/check.h"
#include "sim/base/input_error.h"

namespace kvlane {
namespace {

// The trace and the layout must speak of the same model and prompt.
void check_fits(const SelectionTrace& trace, const KvLayout& layout) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError({trace.name, 0, 0}, found, "expected " + expected);
  };
  if (trace.model_layers != layout.layer_count()) {
    refuse(fmt::format("a trace of {}, {} layers", trace.model, trace.model_layers),
           fmt::format("a trace of a model with {}", layout.layer_count()));
  }
  if (trace.prompt_tokens != layout.prompt_tokens()) {
    refuse(fmt::format("a trace of {} prompt tokens", trace.prompt_tokens),
           fmt::format("a prompt of {} tokens", layout.prompt_tokens()));
  }
  for (std::int64_t l = 0; l < layout.layer_count(); ++l) {
    const LayerLayout& layer = layout.layer(static_cast<std::size_t>(l));
    const bool traced = std::binary_search(trace.layers.begin(), trace.layers.end(), l);
    if (!traced && !layer.dense) {
      refuse(fmt::format("layer {} selects rows but is not in the trace", l),
             "a trace with that layer");
    }
    // A traced layer that the run keeps dense is not used.
    if (traced && !layer.dense && layer.kv_heads != trace.kv_heads) {
      refuse(fmt::format("a trace of {} kv heads", trace.kv_heads),
             fmt::format("{} in layer {}", layer.kv_heads, l));
    }
  }
}

class ReplayedDemand final : public Demand {
 public:
  ReplayedDemand(const SelectionTrace& trace, const KvLayout& layout) : steps_(trace.steps) {
    const std::int64_t size = layout.tokens_per_block();
    blocks_ = (layout.prompt_tokens() + size - 1) / size;
    layers_.resize(static_cast<std::size_t>(layout.layer_count()));
    for (std::size_t i = 0; i < trace.layers.size(); ++i) {
      const auto l = static_cast<std::size_t>(trace.layers[i]);
      if (!layout.layer(l).dense) layers_[l].emplace(make_layer(trace, i, size));
    }
  }

  std::int64_t steps() const override { return steps_; }
  std::int64_t layer_count() const override { return static_cast<std::int64_t>(layers_.size()); }
  std::int64_t block_count() const override { return blocks_; }
  bool selects(std::size_t layer) const override { return layers_.at(layer).has_value(); }
  std::int64_t attended(std::size_t layer, std::int64_t step) const override {
    return layers_.at(layer) ? layers_[layer]->attended[checked(step)] : 0;
  }
  std::int64_t selected(std::size_t layer, std::int64_t step) const override {
    return layers_.at(layer) ? layers_[layer]->selected[checked(step)] : 0;
  }
  std::span<const BlockCount> first_selected(std::size_t layer, std::int64_t step) const override {
    if (!layers_.at(layer)) return {};
    return layers_[layer]->first[checked(step)];
  }
  std::span<const std::uint32_t> counts(std::size_t layer, std::int64_t step) const override {
    if (!layers_.at(layer)) return {};
    const auto blocks = static_cast<std::size_t>(blocks_);
    return std::span(layers_[layer]->counts).subspan(checked(step) * blocks, blocks);
  }
  std::span<const std::uint32_t> totals(std::size_t layer) const override {
    if (!layers_.at(layer)) return {};
    return layers_[layer]->totals;
  }
  std::span<const std::uint32_t> own_queries(std::size_t) const override { return {}; }
  double attention_mass() const override { return 0; }

 private:
  struct Layer {
    std::vector<std::int64_t> attended, selected;
    std::vector<std::vector<BlockCount>> first;  // [step]
    std::vector<std::uint32_t> counts;           // [step][block]
    std::vector<std::uint32_t> totals;
  };

  Layer make_layer(const SelectionTrace& trace, std::size_t index,
                   std::int64_t tokens_per_block) const {
    const auto tokens = static_cast<std::size_t>(trace.prompt_tokens);
    const auto blocks = static_cast<std::size_t>(blocks_);
    Layer layer;
    layer.totals.resize(blocks);
    layer.counts.resize(blocks * static_cast<std::size_t>(steps_));
    std::vector<bool> seen(tokens * static_cast<std::size_t>(trace.kv_heads));
    std::vector<std::uint32_t> fresh(blocks);
    for (std::size_t s = 0; s < trace.rows.size(); ++s) {
      std::int64_t attended = 0, selected = 0;
      std::uint32_t* counts = layer.counts.data() + s * blocks;
      std::fill(fresh.begin(), fresh.end(), 0U);
      for (std::size_t h = 0; h < trace.rows[s][index].size(); ++h) {
        const auto& rows = trace.rows[s][index][h];
        attended += std::ssize(rows);
        for (const std::uint32_t row : rows) {
          if (row >= tokens) break;  // ascending: the rest are generated rows
          const std::size_t block = row / static_cast<std::size_t>(tokens_per_block);
          ++selected;
          ++counts[block];
          ++layer.totals[block];
          const std::size_t cell = h * tokens + row;
          if (!seen[cell]) ++fresh[block];
          seen[cell] = true;
        }
      }
      layer.attended.push_back(attended);
      layer.selected.push_back(selected);
      auto& first = layer.first.emplace_back();
      for (std::size_t m = 0; m < blocks; ++m) {
        if (fresh[m] != 0) first.push_back({static_cast<std::uint32_t>(m), fresh[m]});
      }
    }
    return layer;
  }
  std::size_t checked(std::int64_t step) const {
    KVLANE_CHECK(step >= 0 && step < steps_, "step {} of {}", step, steps_);
    return static_cast<std::size_t>(step);
  }

  std::int64_t steps_ = 0;
  std::int64_t blocks_ = 0;
  std::vector<std::optional<Layer>> layers_;
};

}  // namespace

std::unique_ptr<const Demand> replay_demand(const SelectionTrace& trace, const KvLayout& layout,
                                            std::int64_t output_steps) {
  check_fits(trace, layout);
  if (trace.steps < output_steps) {
    throw InputError({trace.name, 0, 0}, fmt::format("a trace of {} decode steps", trace.steps),
                     fmt::format("expected at least {}", output_steps));
  }
  return std::make_unique<ReplayedDemand>(trace, layout);
}

ImportanceProfile profile_of_traces(std::span<const SelectionTrace* const> traces,
                                    const KvLayout& layout) {
  KVLANE_CHECK(!traces.empty(), "a profile of no traces");
  ImportanceProfile profile;
  for (const SelectionTrace* trace : traces) {
    const auto demand = replay_demand(*trace, layout);
    profile.blocks = demand->block_count();
    profile.weight.resize(static_cast<std::size_t>(layout.layer_count()));
    for (std::size_t l = 0; l < profile.weight.size(); ++l) {
      const auto totals = demand->totals(l);
      auto& weight = profile.weight[l];
      weight.resize(totals.size());
      for (std::size_t m = 0; m < totals.size(); ++m) {
        weight[m] += static_cast<float>(totals[m]) / static_cast<float>(traces.size());
      }
    }
  }
  return profile;
}

}  // namespace kvlane
