#pragma once
// Number formats of tensors that kernels read and write, and their conversion one value at a time.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvlane::kernels {

enum class Format : std::uint8_t { fp32, fp16, bf16 };

inline std::size_t bytes_of(Format format) { return format == Format::fp32 ? 4 : 2; }
inline const char* to_string(Format format) {
  return format == Format::fp32 ? "fp32" : format == Format::fp16 ? "fp16" : "bf16";
}

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even; a NaN stays one.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = std::ldexp(static_cast<float>(fraction), -24);  // subnormal: exact
  return sign != 0 ? -magnitude : magnitude;
}

// To nearest, ties to even; above the largest half (65504 and its rounding) infinity.
inline std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // subnormal half: in units of 2^-24, ties to even
    half =
        static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24)));
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

// Element `i` of a tensor of the format; its address need not be aligned.
inline float load(const void* tensor, Format format, std::size_t i) {
  const auto* at = static_cast<const std::byte*>(tensor) + i * bytes_of(format);
  if (format == Format::fp32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return format == Format::fp16 ? from_fp16(bits) : from_bf16(bits);
}

inline void store(void* tensor, Format format, std::size_t i, float value) {
  auto* at = static_cast<std::byte*>(tensor) + i * bytes_of(format);
  if (format == Format::fp32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = format == Format::fp16 ? to_fp16(value) : to_bf16(value);
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace kvlane::kernels
