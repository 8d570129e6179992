#pragma once
// Demand from a recorded selection, format kvlane-selection-1: gzip of one JSON line
// and a body of varints. The reader takes bytes, so that it can be fuzzed; broken input is an
// InputError.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/kv/importance.h"
#include "sim/kv/kv_layout.h"
#include "sim/select/demand.h"

namespace kvlane {

struct SelectionTrace {
  std::string name;  // file
  std::string model, text, kind, selector, note;
  std::int64_t prompt_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t model_layers = 0;
  std::int64_t kv_heads = 0;
  std::vector<std::int64_t> layers;        // those in the body, ascending
  std::vector<std::int64_t> dense_layers;  // ascending
  // [step][layer index][kv head] -> ascending token positions; >= prompt_tokens are generated rows
  std::vector<std::vector<std::vector<std::vector<std::uint32_t>>>> rows;
};

// What a file may unpack to; a larger one is refused (2 MB are usual, 30 MB an exact
// 20 % of 8K tokens of an 8B model).
inline constexpr std::size_t kLargestTrace = std::size_t{128} << 20U;

SelectionTrace read_selection_trace(std::span<const std::uint8_t> file, const std::string& name);
// The trace must hold what its header fields say (KVLANE_CHECK).
std::vector<std::uint8_t> write_selection_trace(const SelectionTrace& trace);

// The layout must be that of the traced model at the traced prompt length: InputError otherwise
// (layers, kv heads, tokens; every layer in the body must select in the layout). Selecting layers
// that the trace does not hold (it covers some layers only) are an InputError too. `output_steps`:
// decode steps that the run needs; a trace with fewer is an InputError.
std::unique_ptr<const Demand> replay_demand(const SelectionTrace& trace, const KvLayout& layout,
                                            std::int64_t output_steps = 0);
// A profile from traces of other texts (the replayed one must not be among them).
ImportanceProfile profile_of_traces(std::span<const SelectionTrace* const> traces,
                                    const KvLayout& layout);

}  // namespace kvlane
