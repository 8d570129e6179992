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

// Calls each(at, word, skip, part): bytes [at, at + part) of the piece are those of `word` after
// its first `skip`.
template <class Each>
void for_pattern(std::uint64_t seed, std::int64_t offset, std::size_t bytes, Each each) {
  auto at = static_cast<std::uint64_t>(offset);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t skip = at % 8;
    const std::size_t part = bytes - done < 8 - skip ? bytes - done : 8 - skip;
    each(done, pattern_word(seed, at / 8), skip, part);
    done += part;
    at += part;
  }
}

// Bytes that a region with this seed holds from `offset` on.
inline void fill_pattern(std::uint64_t seed, std::int64_t offset, std::span<std::byte> bytes) {
  for_pattern(seed, offset, bytes.size(),
              [&](std::size_t at, std::uint64_t word, std::size_t skip, std::size_t part) {
                if (part == 8) {
                  std::memcpy(bytes.data() + at, &word, 8);
                } else {
                  const std::uint64_t shifted = word >> (8 * skip);
                  std::memcpy(bytes.data() + at, &shifted, part);
                }
              });
}

// How many bytes are not as fill_pattern() makes them.
inline std::int64_t wrong_bytes(std::uint64_t seed, std::int64_t offset,
                                std::span<const std::byte> bytes) {
  std::int64_t wrong = 0;
  for_pattern(seed, offset, bytes.size(),
              [&](std::size_t at, std::uint64_t word, std::size_t skip, std::size_t part) {
                std::uint64_t there = 0;
                if (part == 8) {
                  std::memcpy(&there, bytes.data() + at, 8);
                  if (there == word) return;
                }
                const std::uint64_t expected = word >> (8 * skip);
                for (std::size_t i = 0; i < part; ++i) {
                  const auto byte = static_cast<std::byte>(expected >> (8 * i) & 0xffU);
                  wrong += bytes[at + i] != byte ? 1 : 0;
                }
              });
  return wrong;
}

}  // namespace kvlane::live
