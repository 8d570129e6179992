#pragma once
// Rows of a Format in device code: kPerLoad elements, or one, at a time.

#include "kernels/common/cuda_format.h"

namespace kvlane::kernels::cuda {

template <Format kFormat>
__device__ __forceinline__ uint4 load_row(const void* tensor, std::size_t element) {
  return *reinterpret_cast<const uint4*>(static_cast<const unsigned char*>(tensor) +
                                         element * kBytes<kFormat>);
}

template <Format kFormat>
__device__ __forceinline__ unsigned two_elements(float low, float high) {
  if constexpr (kFormat == Format::bf16) {
    return static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16(low))) |
           static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16(high))) << 16;
  } else {
    return static_cast<unsigned>(__half_as_ushort(__float2half(low))) |
           static_cast<unsigned>(__half_as_ushort(__float2half(high))) << 16;
  }
}

template <Format kFormat>
__device__ __forceinline__ void store_row(void* tensor, std::size_t element,
                                          const float (&values)[kPerLoad<kFormat>]) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kFormat == Format::fp32) {
      words[i] = __float_as_uint(values[i]);
    } else {
      words[i] = two_elements<kFormat>(values[2 * i], values[2 * i + 1]);
    }
  }
  *reinterpret_cast<uint4*>(static_cast<unsigned char*>(tensor) + element * kBytes<kFormat>) =
      uint4{words[0], words[1], words[2], words[3]};
}

inline bool at_16_bytes(const void* tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor) % 16 == 0;
}

// body(Constant<format>) for the format of the arguments.
template <Format kFormat>
struct Constant {
  static constexpr Format value = kFormat;
};
template <typename Body>
void with_format(Format format, Body body) {
  if (format == Format::fp32) {
    body(Constant<Format::fp32>{});
  } else if (format == Format::fp16) {
    body(Constant<Format::fp16>{});
  } else {
    body(Constant<Format::bf16>{});
  }
}

}  // namespace kvlane::kernels::cuda
