#pragma once
// Draws a Demand, and an importance profile from other texts, with the statistics of a
// SelectionSpec.

#include <cstdint>
#include <memory>

#include "sim/kv/importance.h"
#include "sim/select/demand.h"
#include "sim/select/selection_spec.h"

namespace kvlane {

struct DemandSpec {
  Selector selector = Selector::infinigen;
  SelectCount count = SelectCount::cap;
  double cap = 0.20;  // share of the current length
  std::int64_t steps = 64;
  std::uint64_t seed = 1;
  std::uint32_t request = 0;  // its own random stream
};

// `layout` gives tokens, blocks, kv heads and which layers select.
std::unique_ptr<const Demand> generate_demand(const SelectionSpec& spec, const KvLayout& layout,
                                              const DemandSpec& demand);

// The offline profile: mean counts over `texts` other texts (streams of their own, never the
// run's).
ImportanceProfile generate_profile(const SelectionSpec& spec, const KvLayout& layout,
                                   const DemandSpec& demand, int texts);

}  // namespace kvlane
