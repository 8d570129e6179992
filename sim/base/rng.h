#pragma once
// Random numbers by name. One stream a source of randomness ("arrivals", "demand/request 3"), so
// that a draw added in one place moves nothing elsewhere. The generator is xoshiro256** seeded by
// SplitMix64 over an FNV-1a hash of the name; integers only, so that the same seed gives the same
// bytes on every compiler. Distributions with floating point results come from Boost.Random.

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

namespace kvlane {

constexpr std::uint64_t split_mix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

// A uniform random bit generator (usable with Boost.Random) of 64 bits a draw.
class Rng {
 public:
  using result_type = std::uint64_t;
  static constexpr bool has_fixed_range = false;

  constexpr Rng(std::uint64_t seed, std::string_view stream) {
    std::uint64_t mix = seed ^ fnv1a(stream);
    for (auto& word : state_) word = split_mix64(mix);
  }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // Uniform in [0, 1) with 53 bits.
  constexpr double uniform() { return static_cast<double>((*this)() >> 11U) * 0x1.0p-53; }
  // Uniform in [0, n), n > 0; multiply-shift, bias below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) {
    __extension__ using uint128 = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<uint128>((*this)()) * n) >> 64U);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace kvlane
