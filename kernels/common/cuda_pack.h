#pragma once
// 16-bit operands of tensor cores: pairs of floats into a register, the product of a format, and
// what is not finite in a register.

#include "kernels/common/cuda_format.h"
#include "kernels/common/ptx.h"

namespace kvlane::kernels::cuda {

// To nearest, ties to even; `low` in the low half.
template <Format kFormat>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  static_assert(kFormat != Format::fp32);
  std::uint32_t bits = 0;
  if constexpr (kFormat == Format::bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    // CUDA's pairs have constructors, but are two 16-bit words and no more.
    memcpy(&bits, &pair, sizeof bits);  // NOLINT(bugprone-undefined-memory-manipulation)
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);  // NOLINT(bugprone-undefined-memory-manipulation)
  }
  return bits;
}

// c[16][8] += a[16][16] b[16][8], spread over the warp.
template <Format kFormat>
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  static_assert(kFormat != Format::fp32);
  if constexpr (kFormat == Format::bf16) {
    multiply_bf16(c, a, b);
  } else {
    multiply_fp16(c, a, b);
  }
}

// Whether the low or high half of a register is a NaN or an infinity.
template <Format kFormat>
__device__ __forceinline__ bool low_not_finite(std::uint32_t pair) {
  constexpr std::uint32_t kExponent = kFormat == Format::bf16 ? 0x7f80u : 0x7c00u;
  return (pair & kExponent) == kExponent;
}
template <Format kFormat>
__device__ __forceinline__ bool high_not_finite(std::uint32_t pair) {
  return low_not_finite<kFormat>(pair >> 16);
}

}  // namespace kvlane::kernels::cuda
