#pragma once
// Which rows of a block a selection of `count` means, where rows have names (a world with memory):
// a fixed order that scatters over the block, as selected rows do. A statistic counts rows a block
// and does not name them.

#include <cstdint>
#include <numeric>

namespace kvlane {

// The k-th row (0 <= k < rows) of a block of `rows` rows: each once.
inline std::int64_t row_in_block(std::int64_t rows, std::int64_t k) {
  // A step near the golden section, without a common divisor.
  std::int64_t step = rows * 618 / 1000;
  while (step > 1 && std::gcd(step, rows) != 1) --step;
  return step <= 1 ? k : k * step % rows;
}

}  // namespace kvlane
