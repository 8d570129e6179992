#pragma once
// What the selection of one request wants, by layer, decode step and block; the same for every
// strategy (common random numbers): made once a request, shared, never changed.
//
// Step 0 is the first decode step (it makes token 2). A row is one kv head's K and V of one token;
// counts are (row, kv head) pairs of the *prompt*. With fetched rows kept, a strategy needs only
// first_selected(); without, counts(). Virtual steps -32..-1 are the prompt's own last queries.
// counts(), totals() and own_queries() are made on first use and kept; a Demand belongs to one run
// and one thread.

#include <cstdint>
#include <memory>
#include <span>

namespace kvlane {

struct BlockCount {
  std::uint32_t block = 0;
  std::uint32_t rows = 0;
  bool operator==(const BlockCount&) const = default;
};

class Demand {
 public:
  virtual ~Demand() = default;

  virtual std::int64_t steps() const = 0;
  virtual std::int64_t layer_count() const = 0;
  virtual std::int64_t block_count() const = 0;
  // True where the layer selects; dense, windowed and linear layers do not.
  virtual bool selects(std::size_t layer) const = 0;
  // Rows the kernel reads at a step over all kv heads, generated rows included (always local).
  virtual std::int64_t attended(std::size_t layer, std::int64_t step) const = 0;
  // Prompt rows among them.
  virtual std::int64_t selected(std::size_t layer, std::int64_t step) const = 0;
  // Blocks with rows selected at `step` that no earlier step (>= 0) selected; ascending by block.
  virtual std::span<const BlockCount> first_selected(std::size_t layer,
                                                     std::int64_t step) const = 0;
  // Selected prompt rows of every block at `step`. [block_count]. Made on first use.
  virtual std::span<const std::uint32_t> counts(std::size_t layer, std::int64_t step) const = 0;
  // Sum of counts over all steps (the oracle's order). [block_count]
  virtual std::span<const std::uint32_t> totals(std::size_t layer) const = 0;
  // Sum over the virtual steps -32..-1. Empty where there are none (replay).
  virtual std::span<const std::uint32_t> own_queries(std::size_t layer) const = 0;
  // Mean attention mass of the selected rows over selecting layers, as measured; 0 where unknown
  // (replay). Under `cap` a lower bound (generator.h).
  virtual double attention_mass() const = 0;
};

}  // namespace kvlane
