#pragma once
// Normal numbers from tables. Everything that libm computes is rounded to a multiple of 2^-20 (or
// 2^-40 for probabilities) once, here, and only added and multiplied afterwards: the same numbers
// on every machine.

#include <array>
#include <cmath>
#include <cstdint>

namespace kvlane::select {

// Rounds a libm result before anything is decided by it.
inline double settle(double x) {
  const double scaled = x * 0x1.0p20 + 0.5;
  const auto whole = static_cast<double>(static_cast<std::int64_t>(scaled));  // |x| < 2^42
  return (whole > scaled ? whole - 1 : whole) * 0x1.0p-20;
}

class NormalTable {
 public:
  static constexpr unsigned kBits = 12;
  static constexpr std::size_t kBins = std::size_t{1} << kBits;

  static const NormalTable& instance();

  // Mean of the bin: a normal draw from 12 random bits.
  float of_bin(std::uint64_t bits) const { return mid_[bits & (kBins - 1)]; }
  // The same with 8 further bits for the place inside the bin; unit 2^-16.
  std::int32_t of_20_bits(std::uint64_t bits) const {
    const std::size_t bin = (bits >> 8U) & (kBins - 1);
    const auto place = static_cast<std::int32_t>(bits & 255U);
    return edge_[bin] + (((edge_[bin + 1] - edge_[bin]) * place) >> 8);
  }
  double of_uniform(double p) const;  // quantile, p in (0, 1)
  // P(N(0,1) > z), linear between multiples of 1/64.
  double tail(double z) const;

 private:
  NormalTable();
  static constexpr int kTailSteps = 64;  // a unit of z
  static constexpr int kTailLimit = 8;   // |z|
  std::array<std::int32_t, kBins + 1> edge_{};
  std::array<float, kBins> mid_{};
  std::array<double, 2 * kTailSteps * kTailLimit + 2> tail_{};
};

}  // namespace kvlane::select
