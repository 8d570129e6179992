#pragma once
// Demand from a recorded selection, format kvlane-selection-1 (models.md 6): gzip of one JSON line
// and a body of varints. The reader takes bytes, so that it can be fuzzed; broken input is an
// InputError.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/kv/importance.h"
#include "sim/select/demand.h"

namespace kvlane {

struct SelectionTrace {
  std::string name;  // file
  std::string model, text, kind, selector, note;
  std::int64_t prompt_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t model_layers = 0;
  std::int64_t kv_heads = 0;
  std::vector<std::int64_t> layers;  // those in the body
  std::vector<std::int64_t> dense_layers;
  // [step][layer index][kv head] -> ascending token positions; >= prompt_tokens are generated rows
  std::vector<std::vector<std::vector<std::vector<std::uint32_t>>>> rows;
};

SelectionTrace read_selection_trace(std::span<const std::uint8_t> file, const std::string& name);
std::vector<std::uint8_t> write_selection_trace(const SelectionTrace& trace);

// The layout must be that of the traced model at the traced prompt length.
std::unique_ptr<const Demand> replay_demand(const SelectionTrace& trace, const KvLayout& layout);
// A profile from traces of other texts (the replayed one must not be among them).
ImportanceProfile profile_of_traces(std::span<const SelectionTrace* const> traces,
                                    const KvLayout& layout);

}  // namespace kvlane
