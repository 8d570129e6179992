#pragma once
// Draws a Demand, and an importance profile from other texts, with the statistics of a
// SelectionSpec. How: row_count.h (counts and thresholds), life_library.h (the table of lives),
// token_scan.h (a text's tokens drawn from it).
//
// Against the reference (analysis/selection_reference.py) two things differ. A step selects by
// threshold, so its count scatters about the wanted one by about its square root; attended() is the
// sum of prompt and generated rows as drawn. Paths of the library repeat in a layer: rows are
// independent only given them.

#include <cstdint>
#include <memory>

#include "sim/kv/importance.h"
#include "sim/kv/kv_layout.h"
#include "sim/select/demand.h"
#include "sim/select/selection_spec.h"

namespace kvlane {

struct DemandSpec {
  Selector selector = Selector::infinigen;
  SelectCount count = SelectCount::cap;
  double cap = 0.20;        // share of the current length
  std::int64_t steps = 64;  // at least 1
  std::uint64_t seed = 1;
  std::uint32_t request = 0;  // its own random stream
};

// `layout` gives tokens, blocks, kv heads and which layers select (those that are not dense).
// HATA's count is fixed, so `threshold` means `cap` there. attention_mass(): the measured mass of
// the layers' own counts; under a cap below that count, in proportion (rows are picked best first,
// so the mass is concave in their number), under one above it, the same: lower bounds.
std::unique_ptr<const Demand> generate_demand(const SelectionSpec& spec, const KvLayout& layout,
                                              const DemandSpec& demand);

// The offline profile: mean counts over `texts` other texts (streams of their own, never the
// run's; `demand.request` is not used).
ImportanceProfile generate_profile(const SelectionSpec& spec, const KvLayout& layout,
                                   const DemandSpec& demand, int texts);

}  // namespace kvlane
