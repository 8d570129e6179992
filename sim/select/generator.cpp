#include "sim/select/generator.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "sim/base/check.h"
#include "sim/select/layer_text.h"
#include "sim/select/life_library.h"
#include "sim/select/step_counter.h"
#include "sim/select/token_scan.h"

namespace kvlane {
namespace {

using select::layer_selects;
using select::LayerText;
using select::LifeLibrary;
using select::StepCounter;
using select::TokenGrid;

// Events of one layer while they are collected; kept from layer to layer for its memory.
struct EventTable {
  std::vector<BlockCount> events;  // [step][blocks]
  std::vector<BlockCount*> end;    // of each step's events
};

// First selections by step and block, and the selected rows of each step.
class BirthVisitor {
 public:
  BirthVisitor(const LifeLibrary& library, const TokenGrid& grid, EventTable& table)
      : library_(library),
        table_(table),
        births_(library.packed_births()),
        steps_(static_cast<std::size_t>(library.steps())),
        blocks_(static_cast<std::size_t>(grid.blocks)),
        heads_(static_cast<std::uint32_t>(library.heads())),
        usage_(static_cast<std::size_t>(library.levels()) * library.groups()),
        block_births_(library.words()),
        prompt_(library.words()),
        generated_(library.words()) {
    table_.events.resize(steps_ * blocks_);
    table_.end.resize(steps_);
    for (std::size_t s = 0; s < steps_; ++s) table_.end[s] = table_.events.data() + s * blocks_;
  }

  void begin_block(std::int64_t m) { block_ = static_cast<std::uint32_t>(m); }
  void always(std::int64_t rows) {
    block_births_.add_at(0, static_cast<std::uint32_t>(rows));
    prompt_.add_always(static_cast<std::uint32_t>(rows));
  }
  void far(std::int64_t level, std::uint32_t group) {
    const std::size_t set = static_cast<std::size_t>(level) * library_.groups() + group;
    ++usage_[set];
    block_births_.add_packed(births_.data() + set * 8 * library_.words(), heads_);
  }
  void near(const std::uint64_t* lives) {
    const std::size_t words = library_.words();
    for (std::uint32_t h = 0; h < heads_; ++h, lives += words) {
      const std::size_t step = select::first_step(lives, words);
      if (step < steps_) block_births_.add_at(step, 1);
      prompt_.add(lives);
    }
  }
  void generated(const std::uint64_t* lives) {
    for (std::uint32_t h = 0; h < heads_; ++h) generated_.add(lives + h * library_.words());
  }
  void end_block(std::int64_t) {
    block_births_.drain([this](std::size_t step, std::uint32_t rows) {
      *table_.end[step]++ = {block_, rows};
    });
  }

  // The events, step after step; offsets has steps + 1 entries.
  void take_events(std::vector<BlockCount>& events, std::vector<std::uint32_t>& offsets) const {
    offsets.assign(1, 0);
    for (std::size_t s = 0; s < steps_; ++s) {
      offsets.push_back(offsets.back() + static_cast<std::uint32_t>(count(s)));
    }
    events.resize(offsets.back());
    for (std::size_t s = 0; s < steps_; ++s) {
      std::copy_n(table_.events.data() + s * blocks_, count(s), events.data() + offsets[s]);
    }
  }
  // Far rows by level and group are enough for their sums: a path is selected at step s on all
  // levels below reach(path, s).
  void take_sums(std::vector<std::uint32_t>& selected, std::vector<std::uint32_t>& generated) {
    selected.assign(steps_, 0);
    generated.assign(steps_, 0);
    prompt_.drain([&](std::size_t s, std::uint32_t rows) {
      if (s < steps_) selected[s] = rows;
    });
    generated_.drain([&](std::size_t s, std::uint32_t rows) { generated[s] = rows; });
    const auto levels = static_cast<std::size_t>(library_.levels());
    const std::uint32_t groups = library_.groups();
    std::vector<std::uint32_t> below(levels + 1);  // tokens of the group on levels < j
    for (std::uint32_t g = 0; g < groups; ++g) {
      for (std::size_t j = 0; j < levels; ++j) below[j + 1] = below[j] + usage_[j * groups + g];
      for (std::int64_t h = 0; h < library_.heads(); ++h) {
        for (std::size_t s = 0; s < steps_; ++s) {
          selected[s] += below[library_.reach(g, h, static_cast<std::int64_t>(s))];
        }
      }
    }
  }

 private:
  std::ptrdiff_t count(std::size_t step) const {
    return table_.end[step] - (table_.events.data() + step * blocks_);
  }

  const LifeLibrary& library_;
  EventTable& table_;
  std::vector<std::uint64_t> births_;
  std::size_t steps_, blocks_;
  std::uint32_t heads_;
  std::uint32_t block_ = 0;
  std::vector<std::uint32_t> usage_;  // far tokens by level and group
  StepCounter block_births_;
  StepCounter prompt_, generated_;  // near and always; generated rows
};

// Rows of every block and step.
class CountVisitor {
 public:
  CountVisitor(const LifeLibrary& library, const TokenGrid& grid,
               std::vector<std::uint32_t>& counts)
      : library_(library),
        packed_(library.packed_counts()),
        steps_(static_cast<std::size_t>(library.steps())),
        blocks_(static_cast<std::size_t>(grid.blocks)),
        counter_(library.words()),
        counts_(counts) {
    counts_.assign(blocks_ * steps_, 0);
  }
  void begin_block(std::int64_t) {}
  void always(std::int64_t rows) { counter_.add_always(static_cast<std::uint32_t>(rows)); }
  void far(std::int64_t level, std::uint32_t group) {
    const std::size_t set = static_cast<std::size_t>(level) * library_.groups() + group;
    counter_.add_packed(packed_.data() + set * 8 * library_.words(),
                        static_cast<std::uint32_t>(library_.heads()));
  }
  void near(const std::uint64_t* lives) {
    for (std::int64_t h = 0; h < library_.heads(); ++h, lives += library_.words()) {
      counter_.add(lives);
    }
  }
  void generated(const std::uint64_t*) {}
  void end_block(std::int64_t m) {
    counter_.drain([&](std::size_t s, std::uint32_t rows) {
      if (s < steps_) counts_[s * blocks_ + static_cast<std::size_t>(m)] = rows;
    });
  }

 private:
  const LifeLibrary& library_;
  std::vector<std::uint64_t> packed_;
  std::size_t steps_, blocks_;
  StepCounter counter_;
  std::vector<std::uint32_t>& counts_;  // [step][block]
};

// Rows of every block, summed over the steps.
class TotalVisitor {
 public:
  TotalVisitor(const LifeLibrary& library, const TokenGrid& grid,
               std::vector<std::uint32_t>& totals)
      : library_(library), totals_(totals) {
    totals_.assign(static_cast<std::size_t>(grid.blocks), 0);
    const auto levels = static_cast<std::size_t>(library.levels());
    const std::uint32_t groups = library.groups();
    // Steps that the paths of a group spend selected on level j: those with reach > j.
    std::vector<std::uint32_t> reaching(levels + 1);
    token_steps_.resize(levels * groups);
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::fill(reaching.begin(), reaching.end(), 0U);
      for (std::int64_t h = 0; h < library.heads(); ++h) {
        for (std::int64_t s = 0; s < library.steps(); ++s) ++reaching[library.reach(g, h, s)];
      }
      std::uint32_t steps = 0;
      for (std::size_t j = levels; j-- > 0;) {
        steps += reaching[j + 1];
        token_steps_[j * groups + g] = steps;
      }
    }
  }
  void begin_block(std::int64_t m) { total_ = &totals_[static_cast<std::size_t>(m)]; }
  void always(std::int64_t rows) { *total_ += static_cast<std::uint32_t>(rows * library_.steps()); }
  void far(std::int64_t level, std::uint32_t group) {
    *total_ += token_steps_[static_cast<std::size_t>(level) * library_.groups() + group];
  }
  void near(const std::uint64_t* lives) {
    const std::size_t words = static_cast<std::size_t>(library_.heads()) * library_.words();
    for (std::size_t i = 0; i < words; ++i) {
      *total_ += static_cast<std::uint32_t>(std::popcount(lives[i]));
    }
  }
  void generated(const std::uint64_t*) {}
  void end_block(std::int64_t) {}

 private:
  const LifeLibrary& library_;
  std::vector<std::uint32_t>& totals_;
  std::uint32_t* total_ = nullptr;
  std::vector<std::uint32_t> token_steps_;  // [level][group]
};

std::vector<std::uint32_t> decode_totals(const LayerText& text) {
  std::vector<std::uint32_t> totals;
  const LifeLibrary library = text.decode_library();
  TotalVisitor visitor(library, text.grid(), totals);
  text.decode_scan(library).run(visitor);
  return totals;
}

std::vector<std::uint32_t> past_totals(const LayerText& text) {
  std::vector<std::uint32_t> totals;
  const LifeLibrary library = text.past_library();
  TotalVisitor visitor(library, text.grid(), totals);
  text.past_scan(library).run(visitor);
  return totals;
}

class GeneratedDemand final : public Demand {
 public:
  GeneratedDemand(const SelectionSpec& spec, const KvLayout& layout, const DemandSpec& demand)
      : steps_(demand.steps) {
    const SelectionFit& fit = nearest_fit(spec, demand.selector, layout.prompt_tokens());
    layers_.resize(static_cast<std::size_t>(layout.layer_count()));
    EventTable table;
    double mass = 0;
    int selecting = 0;
    for (std::int64_t l = 0; l < layout.layer_count(); ++l) {
      const LayerLayout& place = layout.layer(static_cast<std::size_t>(l));
      if (!layer_selects(place)) continue;
      const LayerSelection& parameters =
          layer_at_depth(fit, spec.measured_layers, l, layout.layer_count());
      Layer& layer = layers_[static_cast<std::size_t>(l)];
      layer.text.emplace(parameters, fit.head_correlation, layout, demand, place.kv_heads,
                         select::request_stream(demand.request, l));
      blocks_ = layer.text->grid().blocks;
      const LifeLibrary library = layer.text->decode_library();
      BirthVisitor births(library, layer.text->grid(), table);
      layer.text->decode_scan(library).run(births);
      births.take_events(layer.events, layer.offsets);
      births.take_sums(layer.selected, layer.generated);
      const bool fixed = demand.count == SelectCount::cap || demand.selector == Selector::hata;
      mass += parameters.mass * (fixed ? std::min(1.0, demand.cap / parameters.n) : 1.0);
      ++selecting;
    }
    if (blocks_ == 0) {
      const std::int64_t size = layout.tokens_per_block();
      blocks_ = (layout.prompt_tokens() + size - 1) / size;
    }
    mass_ = selecting > 0 ? mass / selecting : 0;
  }

  std::int64_t steps() const override { return steps_; }
  std::int64_t layer_count() const override { return static_cast<std::int64_t>(layers_.size()); }
  std::int64_t block_count() const override { return blocks_; }
  bool selects(std::size_t layer) const override { return layers_.at(layer).text.has_value(); }
  std::int64_t attended(std::size_t layer, std::int64_t step) const override {
    const Layer& l = layers_.at(layer);
    if (!l.text) return 0;
    const std::size_t s = checked(step);
    return std::int64_t{l.selected[s]} + l.generated[s];
  }
  std::int64_t selected(std::size_t layer, std::int64_t step) const override {
    const Layer& l = layers_.at(layer);
    return l.text ? l.selected[checked(step)] : 0;
  }
  std::span<const BlockCount> first_selected(std::size_t layer, std::int64_t step) const override {
    const Layer& l = layers_.at(layer);
    if (!l.text) return {};
    const std::size_t s = checked(step);
    return std::span(l.events).subspan(l.offsets[s], l.offsets[s + 1] - l.offsets[s]);
  }
  std::span<const std::uint32_t> counts(std::size_t layer, std::int64_t step) const override {
    const Layer& l = layers_.at(layer);
    if (!l.text) return {};
    if (l.counts.empty()) {
      const LifeLibrary library = l.text->decode_library();
      CountVisitor visitor(library, l.text->grid(), l.counts);
      l.text->decode_scan(library).run(visitor);
    }
    const auto blocks = static_cast<std::size_t>(blocks_);
    return std::span(l.counts).subspan(checked(step) * blocks, blocks);
  }
  std::span<const std::uint32_t> totals(std::size_t layer) const override {
    const Layer& l = layers_.at(layer);
    if (!l.text) return {};
    if (l.totals.empty()) l.totals = decode_totals(*l.text);
    return l.totals;
  }
  std::span<const std::uint32_t> own_queries(std::size_t layer) const override {
    const Layer& l = layers_.at(layer);
    if (!l.text) return {};
    if (l.own.empty()) l.own = past_totals(*l.text);
    return l.own;
  }
  double attention_mass() const override { return mass_; }

 private:
  struct Layer {
    std::optional<LayerText> text;  // none: does not select
    std::vector<BlockCount> events;
    std::vector<std::uint32_t> offsets;  // of the steps in events
    std::vector<std::uint32_t> selected, generated;
    mutable std::vector<std::uint32_t> counts, totals, own;
  };
  std::size_t checked(std::int64_t step) const {
    KVLANE_CHECK(step >= 0 && step < steps_, "step {} of {}", step, steps_);
    return static_cast<std::size_t>(step);
  }

  std::int64_t steps_ = 0;
  std::int64_t blocks_ = 0;
  double mass_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<const Demand> generate_demand(const SelectionSpec& spec, const KvLayout& layout,
                                              const DemandSpec& demand) {
  return std::make_unique<GeneratedDemand>(spec, layout, demand);
}

ImportanceProfile generate_profile(const SelectionSpec& spec, const KvLayout& layout,
                                   const DemandSpec& demand, int texts) {
  KVLANE_CHECK(texts > 0, "a profile of {} texts", texts);
  const SelectionFit& fit = nearest_fit(spec, demand.selector, layout.prompt_tokens());
  ImportanceProfile profile;
  const std::int64_t size = layout.tokens_per_block();
  profile.blocks = (layout.prompt_tokens() + size - 1) / size;
  profile.weight.resize(static_cast<std::size_t>(layout.layer_count()));
  for (std::int64_t l = 0; l < layout.layer_count(); ++l) {
    const LayerLayout& place = layout.layer(static_cast<std::size_t>(l));
    if (!layer_selects(place)) continue;
    const LayerSelection& parameters =
        layer_at_depth(fit, spec.measured_layers, l, layout.layer_count());
    std::vector<std::uint64_t> sum(static_cast<std::size_t>(profile.blocks));
    for (int t = 0; t < texts; ++t) {
      const LayerText text(parameters, fit.head_correlation, layout, demand, place.kv_heads,
                           select::profile_stream(t, l));
      const auto totals = decode_totals(text);
      for (std::size_t m = 0; m < sum.size(); ++m) sum[m] += totals[m];
    }
    auto& weight = profile.weight[static_cast<std::size_t>(l)];
    weight.reserve(sum.size());
    for (const std::uint64_t rows : sum) {
      weight.push_back(static_cast<float>(static_cast<double>(rows) / texts));
    }
  }
  return profile;
}

}  // namespace kvlane
