#include "sim/scenario/strategy_file.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace kvlane {

namespace {

struct Policy {
  PolicyKind kind;
  const char* word;
  const char* description;
};

constexpr std::array<Policy, 7> kPolicies{{
    {PolicyKind::ideal, "ideal", "full's selection and placement over an infinite link"},
    {PolicyKind::full, "full", "the whole KV cache, layer by layer, then decode with selection"},
    {PolicyKind::full_dense, "full_dense", "the whole KV cache, decode attends over everything"},
    {PolicyKind::sequential, "sequential",
     "part of the KV cache in order of position, the rest on demand"},
    {PolicyKind::hack, "hack", "the whole KV cache in 2 bit, attention on the quantised values"},
    {PolicyKind::smartgen, "smartgen",
     "important blocks during prefill, misses on demand, the rest in the background"},
    {PolicyKind::colocated, "colocated", "prefill and decode on the same GPU, nothing to send"},
}};

using Kinds = std::initializer_list<PolicyKind>;

// Which policies an option means something to; keys that are not named here suit all.
bool applies(std::string_view key, PolicyKind policy) {
  using enum PolicyKind;
  const auto one_of = [policy](Kinds kinds) {
    return std::find(kinds.begin(), kinds.end(), policy) != kinds.end();
  };
  if (key == "overlap") return one_of({full, full_dense, hack});
  if (key == "select" || key == "partition") return one_of({hack});
  if (key == "payload") return one_of({ideal, full, full_dense, sequential, smartgen});
  if (key == "selection") return policy != full_dense;
  if (key == "early_prefix") return one_of({full, full_dense, sequential, smartgen, hack});
  if (key == "gdr") return one_of({sequential, smartgen});
  if (key == "auto_switch" || key == "order" || key == "budget" || key == "budget_counts" ||
      key == "on_demand" || key == "on_demand_via" || key == "speculative" ||
      key == "speculative_ratio" || key == "ratio_of" || key == "speculative_chunk" ||
      key == "speculative_in_flight" || key == "keep_fetched")
    return one_of({sequential, smartgen});
  return true;
}

Mapping<StrategyOptions> make_mapping() {
  using enum Need;
  using S = StrategyOptions;
  std::vector<std::pair<std::string, PolicyKind>> policies;
  for (const Policy& p : kPolicies) policies.emplace_back(p.word, p.kind);
  Mapping<S> table("strategy", "A policy and its deviations from that policy's defaults.");
  table.text("name", &S::name, required, "Unique; the name in every result.")
      .words("policy", &S::policy, policies, required,
             "Sets the defaults of all other keys (`kvlane list strategies`).")
      .words("overlap", &S::overlap, {{"layer", Overlap::layer}, {"none", Overlap::none}}, optional,
             "full, full_dense, hack: send each layer when it is ready, or all after prefill.")
      .default_value("layer")
      .words(
          "order", &S::order,
          {{"profile", PushOrder::profile},
           {"layer_totals_recency", PushOrder::layer_totals_recency},
           {"recency", PushOrder::recency},
           {"own_queries", PushOrder::own_queries},
           {"own_queries_profile", PushOrder::own_queries_profile},
           {"sequential", PushOrder::sequential},
           {"sequential_tokens", PushOrder::sequential_tokens},
           {"random", PushOrder::random},
           {"none", PushOrder::none},
           {"oracle", PushOrder::oracle}},
          optional,
          "Which blocks are pushed first. Default: profile for smartgen, sequential (layer after "
          "layer) for sequential, whose other reading is sequential_tokens (from the start of "
          "every layer).")
      .share("budget", &S::budget, optional,
             "Share of all blocks pushed during prefill. Left out: what prefill hides.")
      .words("budget_counts", &S::budget_counts,
             {{"metadata_inside", BudgetCounts::metadata_inside},
              {"metadata_outside", BudgetCounts::metadata_outside}},
             optional, "Whether selection metadata counts in the budget.")
      .default_value("metadata_inside")
      .words("on_demand", &S::on_demand,
             {{"parallel", OnDemand::parallel}, {"serial", OnDemand::serial}}, optional,
             "Remote rows are fetched beside the local load, or before it. Default: parallel for "
             "smartgen, serial for sequential.")
      .words("on_demand_via", &S::on_demand_via,
             {{"send", OnDemandVia::send}, {"read", OnDemandVia::read}}, optional,
             "Index SEND, gather and SEND back, or one-sided READs.")
      .default_value("send")
      .boolean("speculative", &S::speculative, optional,
               "Push the remaining blocks in the background. Default: true for smartgen, false for "
               "sequential.")
      .share("speculative_ratio", &S::speculative_ratio, optional,
             "Share of blocks pushed in the background in one decode iteration, at least 0.1 %.",
             kLeastShare)
      .default_value("10 %")
      .words("ratio_of", &S::ratio_of,
             {{"all", RatioOf::all}, {"remaining_at_start", RatioOf::remaining_at_start}}, optional,
             "What the ratio is of: all blocks, or those missing when decode starts.")
      .default_value("all")
      .integer("speculative_chunk", &S::speculative_chunk, optional,
               "Blocks of one background write. 0: a layer's share.", {0, 1e6})
      .default_value("0")
      .quantity("speculative_in_flight", &S::speculative_in_flight, optional,
                "Bound on the bytes of background writes on the way.", kPositive)
      .default_value("16 MiB")
      .boolean("keep_fetched", &S::keep_fetched, optional,
               "Rows fetched on demand stay on the decode side.")
      .default_value("true")
      .boolean("early_prefix", &S::early_prefix, optional,
               "The cached prefix of a layer may be pushed before the layer is computed.")
      .default_value("false")
      .boolean("gdr", &S::gdr, optional,
               "Fetched rows land in GPU memory directly. Left out: what both NICs can do.")
      .words("payload", &S::payload,
             {{"bf16", Payload::bf16}, {"fp8", Payload::fp8}, {"int4", Payload::int4}}, optional,
             "How KV crosses the wire. HACK's 2-bit form comes with policy: hack only.")
      .default_value("bf16")
      .words("select", &S::hack_select,
             {{"dense", HackSelect::dense}, {"selected", HackSelect::selected}}, optional,
             "hack: attend over all tokens (its authors' way), or over the selected ones.")
      .default_value("dense")
      .custom(
          "partition",
          [] {
            ValueType type(ValueType::Kind::integer);
            type.range = {32, 128};
            type.default_value = "64";
            return type;
          }(),
          optional, "hack: elements that share a scale and a minimum: 32, 64 or 128.",
          [](S& s, const YamlNode& n) {
            s.hack_partition = read_integer(n, {32, 128});
            if (s.hack_partition != 32 && s.hack_partition != 64 && s.hack_partition != 128)
              throw InputError(n.place, describe(n), "expected 32, 64 or 128");
          })
      .words("kv_placement", &S::kv_placement,
             {{"host", KvPlacement::host}, {"gpu", KvPlacement::gpu}}, optional,
             "Where this strategy keeps KV. Default: gpu for hack (its authors' way), else "
             "serving.kv_placement.")
      .words("selection", &S::selection,
             {{"infinigen", Selector::infinigen}, {"hata", Selector::hata}}, optional,
             "KV selection of this strategy. Left out: selection.method.")
      .boolean("auto_switch", &S::auto_switch, optional,
               "Transfer everything where selective transfer does not pay.")
      .default_value("false");
  return table;
}

}  // namespace

const Mapping<StrategyOptions>& strategy_mapping() {
  static const Mapping<StrategyOptions> table = make_mapping();
  return table;
}

StrategyOptions policy_defaults(PolicyKind policy) {
  StrategyOptions options;
  options.policy = policy;
  options.speculative = policy == PolicyKind::smartgen;
  switch (policy) {
    case PolicyKind::sequential:
      options.order = PushOrder::sequential;
      options.on_demand = OnDemand::serial;
      break;
    case PolicyKind::hack:
      options.payload = Payload::hack2;
      options.kv_placement = KvPlacement::gpu;
      break;
    case PolicyKind::smartgen:
    case PolicyKind::ideal:
    case PolicyKind::full:
    case PolicyKind::full_dense:
    case PolicyKind::colocated:
      break;
  }
  return options;
}

StrategyOptions read_strategy(const YamlNode& node) {
  StrategyOptions options;
  const YamlNode* policy = node.find("policy");
  if (policy != nullptr && policy->kind == YamlNode::Kind::scalar)
    for (const Policy& p : kPolicies)
      if (policy->text == p.word) options = policy_defaults(p.kind);
  strategy_mapping().read(node, options);
  for (const YamlEntry& entry : node.entries) {
    if (!applies(entry.key.text, options.policy))
      throw InputError(
          entry.key.place,
          "`" + entry.key.text + "` means nothing to policy " + to_string(options.policy),
          "expected the key left out, or another policy");
    if (options.policy == PolicyKind::sequential && entry.key.text == "order" &&
        options.order != PushOrder::sequential && options.order != PushOrder::sequential_tokens)
      throw InputError(
          entry.value.place, describe(entry.value) + " with policy sequential",
          "expected sequential or sequential_tokens; policy smartgen takes all orders");
    if (options.policy == PolicyKind::hack && entry.key.text == "selection" &&
        options.hack_select == HackSelect::dense)
      throw InputError(entry.key.place, "`selection` with a dense hack",
                       "expected select: selected beside it");
  }
  return options;
}

std::vector<std::pair<std::string, std::string>> list_policies() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const Policy& p : kPolicies) list.emplace_back(p.word, p.description);
  return list;
}

}  // namespace kvlane
