#pragma once
// What memory is filled with so that every byte tells where it belongs: words of 8 bytes that are a
// function of (seed, offset).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kvlane::live {

inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t word) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ULL + word * 0xd1342543de82ef95ULL;
  x ^= x >> 32U;
  return x * 0xbf58476d1ce4e5b9ULL ^ x >> 29U;
}

// Bytes that a region with this seed holds from `offset` on.
inline void fill_pattern(std::uint64_t seed, std::int64_t offset, std::span<std::byte> bytes) {
  auto at = static_cast<std::uint64_t>(offset);
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t word = pattern_word(seed, at / 8);
    const std::size_t skip = at % 8;
    const std::size_t part = bytes.size() - done < 8 - skip ? bytes.size() - done : 8 - skip;
    std::memcpy(bytes.data() + done, reinterpret_cast<const std::byte*>(&word) + skip, part);
    done += part;
    at += part;
  }
}

// How many bytes are not as fill_pattern() makes them.
inline std::int64_t wrong_bytes(std::uint64_t seed, std::int64_t offset,
                                std::span<const std::byte> bytes) {
  std::int64_t wrong = 0;
  auto at = static_cast<std::uint64_t>(offset);
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t word = pattern_word(seed, at / 8);
    const std::size_t skip = at % 8;
    const std::size_t part = bytes.size() - done < 8 - skip ? bytes.size() - done : 8 - skip;
    const auto* expected = reinterpret_cast<const std::byte*>(&word) + skip;
    if (std::memcmp(bytes.data() + done, expected, part) != 0) {
      for (std::size_t i = 0; i < part; ++i) wrong += bytes[done + i] != expected[i] ? 1 : 0;
    }
    done += part;
    at += part;
  }
  return wrong;
}

}  // namespace kvlane::live
