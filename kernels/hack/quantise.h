#pragma once
// The arithmetic of HACK's codes: IEEE fp32, so that every backend writes the same bytes.

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/common/format.h"

namespace kvlane::kernels {

inline constexpr std::uint16_t kHackNan = 0x7fc0;

struct HackRange {
  std::uint16_t min = 0, scale = 0;  // bf16
};

// The next bf16 at or below, or at or above, a finite value. -0 becomes +0: which of the two a
// minimum yields depends on the order of the values.
inline std::uint16_t bf16_below(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);
  return static_cast<std::uint16_t>((bits + ((bits >> 31) != 0 ? 0xffffu : 0u)) >> 16);
}
inline std::uint16_t bf16_above(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);
  return static_cast<std::uint16_t>((bits + ((bits >> 31) != 0 ? 0u : 0xffffu)) >> 16);
}

// From the smallest and largest of the values; `finite`: all are.
inline HackRange hack_range(float smallest, float largest, bool finite, int bits) {
  if (!finite) return {kHackNan, 0};
  const std::uint16_t min = bf16_below(smallest);
  const float levels = static_cast<float>((1 << bits) - 1);
  const std::uint16_t scale = bf16_above((largest - from_bf16(min)) / levels);
  if (!std::isfinite(from_bf16(min)) || !std::isfinite(from_bf16(scale))) return {kHackNan, 0};
  return {min, scale};
}

inline int hack_code(float value, HackRange range, int bits) {
  const float scale = from_bf16(range.scale);
  if (scale == 0) return 0;
  const float steps = std::nearbyint((value - from_bf16(range.min)) / scale);
  const float levels = static_cast<float>((1 << bits) - 1);
  return static_cast<int>(steps < 0 ? 0 : steps > levels ? levels : steps);
}

}  // namespace kvlane::kernels
