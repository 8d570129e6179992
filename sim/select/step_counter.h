#pragma once
// Counts rows by step. Eight steps lie side by side in a word, a byte each ("packed": byte s % 8 of
// word s / 8), so that counts of many steps add up at once.

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvlane::select {

// The eight bits of a byte as the low bits of eight bytes.
inline constexpr std::array<std::uint64_t, 256> kSpreadBits = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      table[byte] |= std::uint64_t{(byte >> bit) & 1U} << (8 * bit);
    }
  }
  return table;
}();

// Adds a life of `words` words to packed counts.
inline void add_spread(std::uint64_t* packed, const std::uint64_t* life, std::size_t words) {
  for (std::size_t w = 0; w < words; ++w, packed += 8) {
    for (std::size_t i = 0; i < 8; ++i) packed[i] += kSpreadBits[(life[w] >> (8 * i)) & 255U];
  }
}

// The first step of a life; 64 * words where there is none.
inline std::size_t first_step(const std::uint64_t* life, std::size_t words) {
  for (std::size_t w = 0; w < words; ++w) {
    if (life[w] != 0) return 64 * w + static_cast<std::size_t>(std::countr_zero(life[w]));
  }
  return 64 * words;
}

class StepCounter {
 public:
  explicit StepCounter(std::size_t words) : packed_(8 * words), wide_(64 * words) {}

  void add(const std::uint64_t* life) {
    make_room(1);
    add_spread(packed_.data(), life, packed_.size() / 8);
  }
  // Packed counts of a token, `rows` (<= 255) at most in each byte.
  void add_packed(const std::uint64_t* packed, std::uint32_t rows) {
    make_room(rows);
    std::uint64_t* to = packed_.data();
    for (std::size_t w = packed_.size() / 8; w-- > 0; to += 8, packed += 8) {
      std::array<std::uint64_t, 8> sum;
      for (std::size_t i = 0; i < 8; ++i) sum[i] = to[i] + packed[i];
      for (std::size_t i = 0; i < 8; ++i) to[i] = sum[i];
    }
  }
  void add_at(std::size_t step, std::uint32_t rows) {
    wide_[step] += rows;
    any_wide_ = true;
  }
  void add_always(std::uint32_t rows) { always_ += rows; }

  // Hands each step with rows and their number to `sink`, in order, and starts anew.
  template <class Sink>
  void drain(Sink sink) {
    if (any_wide_ || always_ != 0) {
      flush();
      for (std::size_t s = 0; s < wide_.size(); ++s) {
        if (wide_[s] + always_ != 0) sink(s, wide_[s] + always_);
        wide_[s] = 0;
      }
      any_wide_ = false;
      always_ = 0;
      return;
    }
    for (std::size_t i = 0; i < packed_.size(); ++i) {
      for (std::uint64_t word = packed_[i]; word != 0;) {
        const auto shift = static_cast<unsigned>(std::countr_zero(word)) & ~7U;
        sink(8 * i + shift / 8, static_cast<std::uint32_t>((word >> shift) & 255U));
        word &= ~(std::uint64_t{255} << shift);
      }
      packed_[i] = 0;
    }
    room_ = 255;
  }

 private:
  void make_room(std::uint32_t rows) {
    if (rows > room_) flush();
    room_ -= rows;
  }
  void flush() {
    for (std::size_t i = 0; i < packed_.size(); ++i) {
      for (unsigned byte = 0; byte < 8; ++byte) {
        wide_[8 * i + byte] += static_cast<std::uint32_t>((packed_[i] >> (8 * byte)) & 255U);
      }
      packed_[i] = 0;
    }
    any_wide_ = true;
    room_ = 255;
  }

  std::vector<std::uint64_t> packed_;
  std::vector<std::uint32_t> wide_;  // [step]
  std::uint32_t room_ = 255;         // rows that the bytes take before one can overflow
  std::uint32_t always_ = 0;
  bool any_wide_ = false;
};

}  // namespace kvlane::select
