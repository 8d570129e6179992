#pragma once
// Counts, for each step, the lives that have its bit set: bytes of eight steps side by side, spread
// from the bits by a table and added as one word.

#include <array>
#include <cstdint>
#include <vector>

namespace kvlane::select {

class StepCounter {
 public:
  explicit StepCounter(std::size_t words) : sums_(8 * words), counts_(64 * words) {}

  // One life; `life` holds as many words as the counter.
  void add(const std::uint64_t* life) {
    if (++pending_ == 255) flush();
    std::uint64_t* sum = sums_.data();
    for (std::size_t w = 0; w < sums_.size() / 8; ++w, sum += 8) {
      const std::uint64_t bits = life[w];
      for (std::size_t i = 0; i < 8; ++i) sum[i] += kSpread[(bits >> (8 * i)) & 255U];
    }
  }
  void add_always(std::uint32_t rows) { always_ += rows; }
  // Writes the counts of the steps from 0 on (stride `stride` apart) and starts anew.
  void take(std::uint32_t* out, std::size_t steps, std::size_t stride) {
    flush();
    for (std::size_t s = 0; s < steps; ++s) out[s * stride] = counts_[s] + always_;
    counts_.assign(counts_.size(), 0);
    always_ = 0;
  }

 private:
  void flush() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      for (unsigned lane = 0; lane < 8; ++lane) {
        counts_[8 * i + lane] += static_cast<std::uint32_t>((sums_[i] >> (8 * lane)) & 255U);
      }
      sums_[i] = 0;
    }
    pending_ = 0;
  }
  static constexpr std::array<std::uint64_t, 256> kSpread = [] {
    std::array<std::uint64_t, 256> table{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        table[byte] |= std::uint64_t{(byte >> bit) & 1U} << (8 * bit);
      }
    }
    return table;
  }();
  int pending_ = 0;
  std::uint32_t always_ = 0;
  std::vector<std::uint64_t> sums_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace kvlane::select
