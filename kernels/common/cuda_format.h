#pragma once
// Elements of a Format as floats in device code. 16 bytes at a time: kPerLoad elements.

#include "kernels/common/device.h"
#include "kernels/common/format.h"

namespace kvlane::kernels::cuda {

template <Format kFormat>
inline constexpr int kBytes = kFormat == Format::fp32 ? 4 : 2;
template <Format kFormat>
inline constexpr int kPerLoad = 16 / kBytes<kFormat>;

// The two 16-bit elements of a word, the first in the low half.
template <Format kFormat>
__device__ __forceinline__ float2 unpack_pair(unsigned word) {
  if constexpr (kFormat == Format::bf16) {
    return float2{__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  } else {
    return __half22float2(
        __halves2half2(__ushort_as_half(static_cast<unsigned short>(word)),
                       __ushort_as_half(static_cast<unsigned short>(word >> 16))));
  }
}

template <Format kFormat>
__device__ __forceinline__ void unpack(const uint4& bits, float (&out)[kPerLoad<kFormat>]) {
  const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kFormat == Format::fp32) {
      out[i] = __uint_as_float(words[i]);
    } else {
      const float2 pair = unpack_pair<kFormat>(words[i]);
      out[2 * i] = pair.x;
      out[2 * i + 1] = pair.y;
    }
  }
}

// One element, at any address that is a multiple of its size.
template <Format kFormat>
__device__ __forceinline__ float load_element(const void* tensor, std::size_t i) {
  if constexpr (kFormat == Format::fp32) {
    return static_cast<const float*>(tensor)[i];
  } else if constexpr (kFormat == Format::bf16) {
    return __bfloat162float(static_cast<const __nv_bfloat16*>(tensor)[i]);
  } else {
    return __half2float(static_cast<const __half*>(tensor)[i]);
  }
}

// To nearest, ties to even; a NaN stays one.
template <Format kFormat>
__device__ __forceinline__ void store_element(void* tensor, std::size_t i, float value) {
  if constexpr (kFormat == Format::fp32) {
    static_cast<float*>(tensor)[i] = value;
  } else if constexpr (kFormat == Format::bf16) {
    static_cast<__nv_bfloat16*>(tensor)[i] = __float2bfloat16(value);
  } else {
    static_cast<__half*>(tensor)[i] = __float2half(value);
  }
}

}  // namespace kvlane::kernels::cuda
