#include "sim/run/workload.h"

#include <cmath>

#include "sim/select/generator.h"

namespace kvlane {

Workload::Workload(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario), seed_(seed) {
  for (const Prompt& prompt : scenario.prompts) {
    auto& layout = layouts_[prompt.tokens];
    if (!layout) {
      layout = std::make_unique<KvLayout>(
          scenario.model, prompt.tokens, scenario.serving.blocks, scenario.serving.dense_layers,
          scenario.serving.sliding_window == SlidingWindow::as_full);
    }
    for (std::int64_t i = 0; i < prompt.count; ++i) {
      // At least the last token is computed: it makes token 1.
      const auto cached = static_cast<std::int64_t>(
          std::floor(prompt.prefix_hit * static_cast<double>(prompt.tokens)));
      requests_.push_back({prompt.tokens, std::min(cached, prompt.tokens - 1), layout.get()});
    }
  }
}

const Demand& Workload::demand(Selector selector, std::size_t request) {
  const SelectionOptions& selection = scenario_.selection;
  // A recorded text is the same for every request.
  const std::size_t who = selection.trace ? 0 : request;
  auto& demand = demands_[{selector, who}];
  if (!demand) {
    const KvLayout& layout = *requests_[request].layout;
    if (selection.trace) {
      demand = replay_demand(*selection.trace, layout);
    } else {
      DemandSpec spec;
      spec.selector = selector;
      spec.count = selection.count;
      spec.cap = selection.cap;
      spec.steps = scenario_.output_tokens;
      spec.seed = seed_;
      spec.request = static_cast<std::uint32_t>(request);
      demand = generate_demand(selection.spec, layout, spec);
    }
  }
  return *demand;
}

const ImportanceProfile& Workload::profile(Selector selector, const KvLayout& layout) {
  auto& profile = profiles_[{selector, layout.prompt_tokens()}];
  if (!profile) {
    DemandSpec spec;
    spec.selector = selector;
    spec.count = scenario_.selection.count;
    spec.cap = scenario_.selection.cap;
    spec.steps = scenario_.output_tokens;
    spec.seed = seed_;
    profile = std::make_unique<const ImportanceProfile>(generate_profile(
        scenario_.selection.spec, layout, spec, scenario_.selection.profile_texts));
  }
  return *profile;
}

const BlockOrder& Workload::order(PushOrder order, Selector selector, std::size_t request) {
  const KvLayout& layout = *requests_[request].layout;
  // Orders without anything of the request are made once a prompt length.
  const bool own = needs_own_queries(order) || needs_totals(order) || order == PushOrder::random;
  const std::int64_t key = own ? -1 - static_cast<std::int64_t>(request) : layout.prompt_tokens();
  auto& made = orders_[{order, selector, key}];
  if (!made) {
    OrderInputs inputs;
    inputs.layout = &layout;
    inputs.seed = seed_;
    inputs.request = static_cast<std::uint32_t>(request);
    if (needs_profile(order)) inputs.profile = &profile(selector, layout);
    if (needs_own_queries(order) || needs_totals(order)) {
      const Demand& wanted = demand(selector, request);
      for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
        const bool selects = wanted.selects(l);
        inputs.own_queries.push_back(selects && needs_own_queries(order)
                                         ? wanted.own_queries(l)
                                         : std::span<const std::uint32_t>());
        inputs.totals.push_back(selects && needs_totals(order) ? wanted.totals(l)
                                                               : std::span<const std::uint32_t>());
      }
    }
    made = std::make_unique<const BlockOrder>(make_order(order, inputs));
  }
  return *made;
}

}  // namespace kvlane
