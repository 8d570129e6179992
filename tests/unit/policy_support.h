#pragma once
// A request of round numbers, and policies driven by lists of events. 4 layers of 100 tokens in 10
// blocks; a token of a layer is 1000 bytes, a block 10 kB, a layer 100 kB. Layers 0 and 1 are
// dense; 2 and 3 select, with 5 kB of metadata each.

#include <memory>
#include <vector>

#include "sim/policy/transfer_policy.h"

namespace kvlane::test {

inline constexpr std::int64_t kBlock = 10'000;
inline constexpr std::int64_t kLayer = 100'000;

inline ModelSpec four_layers() {
  LayerSpec layer;
  layer.query_heads = 4;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 125;
  ModelSpec model;
  model.name = "four";
  model.layers.assign(4, layer);
  return model;
}

struct PolicyBench {
  explicit PolicyBench(PolicyKind kind, const ModelSpec& model = four_layers())
      : layout(model, 100, 10, 2, false) {
    options.policy = kind;
    plan.layout = &layout;
    plan.options = &options;
    plan.order = &order;
    for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
      plan.metadata.push_back(Bytes(layout.layer(l).dense ? 0 : 5000));
    }
  }
  void make() { policy = make_policy(plan); }
  std::vector<PolicyAction> on(const PolicyEvent& event) {
    if (!policy) make();
    std::vector<PolicyAction> actions;
    policy->on_event(TimePoint(), event, actions);
    return actions;
  }
  std::vector<PolicyAction> layer(std::uint32_t l) { return on(LayerHandedOver{LayerId(l)}); }
  // T_p in microseconds; all KV (400 kB) takes 400 us at 8 Gbit/s.
  std::vector<PolicyAction> start(std::int64_t prefill_us) {
    return on(PrefillStarted{Duration(prefill_us * 1'000'000), Bandwidth::gbit_per_sec(8)});
  }
  std::vector<PolicyAction> arrive(std::vector<BlockRun> runs, LayerId metadata = {}) {
    return on(BlocksArrived{runs, metadata});
  }

  KvLayout layout;
  StrategyOptions options;
  BlockOrder order;
  TransferPlan plan;
  std::unique_ptr<TransferPolicy> policy;
};

using Actions = std::vector<PolicyAction>;

inline WriteBlocks blocks(Lane lane, std::vector<BlockRun> runs) {
  std::int64_t count = 0;
  for (const BlockRun& run : runs) count += run.count;
  return {lane, Bytes(count * kBlock), std::move(runs)};
}
inline WriteBlocks whole_layer(std::uint32_t l) { return blocks(Lane::proactive, {{l, 0, 10}}); }
inline WriteMetadata metadata(std::uint32_t l) { return {LayerId(l), Bytes(5000)}; }

}  // namespace kvlane::test
