#pragma once
// The options of a strategy; their words are the YAML keys (docs/system.md 5). A
// strategy is a policy name, which sets defaults, and deviations from them.

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/units.h"
#include "sim/select/selection_spec.h"

namespace kvlane {

enum class PolicyKind : std::uint8_t {
  ideal,
  full,
  full_dense,
  sequential,
  hack,
  smartgen,
  colocated
};
enum class Endpoint : std::uint8_t { exact, compressed, approximate };

enum class Overlap : std::uint8_t { layer, none };  // full: send each layer, or after prefill
enum class PushOrder : std::uint8_t {               // proactive and speculative
  profile,
  layer_totals_recency,
  recency,
  own_queries,
  own_queries_profile,
  sequential,
  sequential_tokens /* from the start of every layer */,
  random,
  none,
  oracle
};
enum class OnDemand : std::uint8_t { parallel, serial };  // beside the local load, or before it
enum class OnDemandVia : std::uint8_t { send, read };
enum class RatioOf : std::uint8_t { all, remaining_at_start };
enum class Payload : std::uint8_t { bf16, fp8, int4, hack2 };
enum class KvPlacement : std::uint8_t { host, gpu };
enum class FirstToken : std::uint8_t { prefill, decode_seeded, decode_recompute };
enum class PrefixLocation : std::uint8_t { host, gpu };
enum class HackSelect : std::uint8_t { dense, selected };
enum class BudgetCounts : std::uint8_t { metadata_inside, metadata_outside };

struct StrategyOptions {
  std::string name;
  PolicyKind policy = PolicyKind::full;
  Overlap overlap = Overlap::layer;
  PushOrder order = PushOrder::profile;
  std::optional<double> budget;  // share of all blocks; none: what prefill hides (K_r)
  BudgetCounts budget_counts = BudgetCounts::metadata_inside;
  OnDemand on_demand = OnDemand::parallel;
  OnDemandVia on_demand_via = OnDemandVia::send;
  bool speculative = true;
  double speculative_ratio = 0.10;  // of blocks, an iteration
  RatioOf ratio_of = RatioOf::all;
  std::int64_t speculative_chunk = 0;     // blocks a background write; 0: a layer's share
  Bytes speculative_in_flight{16 << 20};  // bound
  bool keep_fetched = true;
  bool early_prefix = false;
  std::optional<bool> gdr;  // none: what both NICs can do
  Payload payload = Payload::bf16;
  HackSelect hack_select = HackSelect::dense;
  std::int64_t hack_partition = 64;         // Pi
  std::optional<KvPlacement> kv_placement;  // none: the scenario's
  std::optional<Selector> selection;        // none: the scenario's
  bool auto_switch = false;                 // full transfer where selective does not pay
};

// What a strategy's answers are worth: exact, compressed, or approximate (attention over fewer
// rows). All strategies that decode with KV selection are approximate as answers to the dense
// model; the endpoint speaks of the KV and attention relative to a full transfer with the same
// selection.
Endpoint endpoint_of(const StrategyOptions& options);
const char* to_string(Endpoint endpoint);
const char* to_string(PolicyKind policy);

}  // namespace kvlane
