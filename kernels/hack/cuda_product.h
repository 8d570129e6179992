#pragma once
// A square of codes (layout.h) times up to eight operands on tensor cores: in integers, and
// dequantised.
//
// A warp is lanes 4 g + t: operand (query head) g, quarter t of the terms. mma.sync sums over k in
// any order if A and B agree, so a lane takes for its k the terms of the units 4 step + t as they
// lie in memory: a 16-byte load has four outputs, each with 8 / bits planes of four terms, and a
// plane of an output is a register of A. Of B a lane needs just the terms of its own head that it
// has of A, so operands are made in registers without an exchange. A block of 32 outputs is two mma
// tiles: outputs 4 g + 2 m and 4 g + 2 m + 1 are rows g and g + 8 of tile m.

#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_pack.h"
#include "kernels/hack/layout.h"

namespace kvlane::kernels::cuda::hack {

inline constexpr int kHeads = 8;

template <int kBits, int kPartition>
struct Terms {
  static constexpr int kPlanes = 8 / kBits;
  static constexpr int kOfUnit = 4 * kPlanes;
  static constexpr int kUnits = kPartition / kOfUnit;   // of a tile of 16 outputs
  static constexpr int kSteps = (kUnits + 3) / 4;       // units that a lane has
  static constexpr int kQuads = kSteps * kPlanes;       // times four terms, a lane
  static constexpr int kBlocks = kPartition / 32;       // of outputs
  static constexpr int kTile = 2 * kPartition * kBits;  // bytes
  static constexpr int kSquare = kPartition * kPartition * kBits / 8;
  static constexpr int kSumBytes = kPartition * ((1 << kBits) - 1) < 256 ? 1 : 2;
  static_assert(kQuads % 2 == 0);

  // Two units only (2 bits, 32 terms): lanes with t of 2 and 3 have no terms.
  __device__ static __forceinline__ bool has(int t) { return kUnits >= 4 || t < kUnits; }
  // The first term of quad q of quarter t.
  __device__ static __forceinline__ int first(int q, int t) {
    return (4 * (q / kPlanes) + t) * kOfUnit + 4 * (q % kPlanes);
  }
};

// K or V of a partition in shared memory, at one group.
struct Square {
  const unsigned char* codes;
  const unsigned short* mins;
  const unsigned short* scales;
  const unsigned char* sums;
};

__device__ __forceinline__ void four_bf16(const unsigned short* at, float (&to)[4]) {
  const uint2 bits = *reinterpret_cast<const uint2*>(at);
  const float2 low = unpack_pair<Format::bf16>(bits.x), high = unpack_pair<Format::bf16>(bits.y);
  to[0] = low.x;
  to[1] = low.y;
  to[2] = high.x;
  to[3] = high.y;
}

// The words of outputs 4 g to 4 g + 3 of a block: this lane's unit of a step.
template <typename T>
__device__ __forceinline__ uint4 words_of(const Square& square, int block, int step) {
  const int lane = lane_of_warp(), g = lane / 4, t = lane % 4;
  if (!T::has(t)) return uint4{0, 0, 0, 0};
  return *reinterpret_cast<const uint4*>(square.codes + (2 * block + g / 4) * T::kTile +
                                         (4 * step + t) * 64 + g % 4 * 16);
}
__device__ __forceinline__ unsigned word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// x ~ least + step * u, u in [0, 255]: kernel.h's offset and u in [-128, 127] shifted by 128, so
// that codes and operands both are unsigned bytes. base = sum of x * min.
template <int kBits, int kPartition>
struct IntegerProduct {
  using T = Terms<kBits, kPartition>;

  std::uint32_t u[T::kQuads];
  float step[2], least[2], base[2];  // of heads 2 t and 2 t + 1

  __device__ __forceinline__ void make(const Square& square, const float (&x)[T::kQuads][4]) {
    const int t = lane_of_warp() % 4;
    const float largest = __uint_as_float(0x7f7fffffu);
    float scaled[T::kQuads][4], low = largest, high = -largest, sum = 0;
    if (T::has(t)) {
#pragma unroll
      for (int q = 0; q < T::kQuads; ++q) {
        float scale[4], min[4];
        four_bf16(square.scales + T::first(q, t), scale);
        four_bf16(square.mins + T::first(q, t), min);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          scaled[q][e] = x[q][e] * scale[e];
          low = fminf(low, scaled[q][e]);
          high = fmaxf(high, scaled[q][e]);
          sum += x[q][e] * min[e];
        }
      }
    } else {
#pragma unroll
      for (int q = 0; q < T::kQuads; ++q) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scaled[q][e] = 0;
      }
    }
    low = -warp_max<4>(-low);
    high = warp_max<4>(high);
    sum = warp_sum<4>(sum);
    // Below 1e-30 the inverse would leave fp32; such operands are constant for all purposes.
    const float range = high - low;
    const bool varies = range > 1e-30f;
    const float inverse = varies ? 255.0f / range : 0.0f;
    const float own_step = varies ? range * (1 / 255.0f) : 0.0f;
#pragma unroll
    for (int q = 0; q < T::kQuads; ++q) {
      unsigned bytes[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // Next to 1.5 * 2^23 floats are integers, whose lowest byte is that of the float.
        bytes[e] = __float_as_uint((scaled[q][e] - low) * inverse + 12582912.0f);
      }
      u[q] = __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040),
                         __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int owner = 4 * (2 * t + h);
      step[h] = __shfl_sync(kWholeWarp, own_step, owner);
      least[h] = __shfl_sync(kWholeWarp, low, owner);
      base[h] = __shfl_sync(kWholeWarp, sum, owner);
    }
  }

  // sums[m] += the C fragment of tile m of a block of outputs.
  __device__ __forceinline__ void add(const Square& square, int block, float (&sums)[2][4]) const {
    constexpr unsigned kMask = kBits == 8 ? 0xffffffffu : 0x01010101u * ((1u << kBits) - 1);
    std::int32_t dots[2][4] = {};
#pragma unroll
    for (int q = 0; q < T::kQuads; q += 2) {
      const uint4 one = words_of<T>(square, block, q / T::kPlanes);
      const uint4 two = words_of<T>(square, block, (q + 1) / T::kPlanes);
      const int shift = q % T::kPlanes * kBits, shift_two = (q + 1) % T::kPlanes * kBits;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_u8(dots[m],
                    {word_of(one, 2 * m) >> shift & kMask, word_of(one, 2 * m + 1) >> shift & kMask,
                     word_of(two, 2 * m) >> shift_two & kMask,
                     word_of(two, 2 * m + 1) >> shift_two & kMask},
                    {u[q], u[q + 1]});
      }
    }
    const int output = 32 * block + lane_of_warp() / 4 * 4;
    unsigned code_sums[4];
    if constexpr (T::kSumBytes == 1) {
      const unsigned bits = *reinterpret_cast<const unsigned*>(square.sums + output);
#pragma unroll
      for (int i = 0; i < 4; ++i) code_sums[i] = bits >> (8 * i) & 0xffu;
    } else {
      const uint2 bits = *reinterpret_cast<const uint2*>(square.sums + 2 * output);
      code_sums[0] = bits.x & 0xffffu;
      code_sums[1] = bits.x >> 16;
      code_sums[2] = bits.y & 0xffffu;
      code_sums[3] = bits.y >> 16;
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const unsigned code_sum = code_sums[2 * m + i / 2];
        const auto of_output = static_cast<float>(code_sum);
        sums[m][i] +=
            base[i % 2] + least[i % 2] * of_output + step[i % 2] * static_cast<float>(dots[m][i]);
      }
    }
  }
};

// Values min + scale * code in fp32, rounded to the 16-bit format as the operands are.
template <int kBits, int kPartition, Format kFormat>
struct DequantisedProduct {
  using T = Terms<kBits, kPartition>;

  std::uint32_t x[T::kQuads][2];

  __device__ __forceinline__ void make(const Square&, const float (&from)[T::kQuads][4]) {
#pragma unroll
    for (int q = 0; q < T::kQuads; ++q) {
      x[q][0] = pack_pair<kFormat>(from[q][0], from[q][1]);
      x[q][1] = pack_pair<kFormat>(from[q][2], from[q][3]);
    }
  }

  __device__ __forceinline__ void add(const Square& square, int block, float (&sums)[2][4]) const {
    const int t = lane_of_warp() % 4;
#pragma unroll
    for (int q = 0; q < T::kQuads; ++q) {
      const uint4 words = words_of<T>(square, block, q / T::kPlanes);
      float scale[4] = {}, min[4] = {};
      if (T::has(t)) {
        four_bf16(square.scales + T::first(q, t), scale);
        four_bf16(square.mins + T::first(q, t), min);
      }
      const auto value = [&](int i, int e) {
        constexpr unsigned kMask = (1u << kBits) - 1;
        const unsigned code = word_of(words, i) >> (8 * e + q % T::kPlanes * kBits) & kMask;
        // 2^23 + code without a conversion, which takes four times as long.
        return min[e] + scale[e] * (__uint_as_float(0x4b000000u | code) - 8388608.0f);
      };
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply<kFormat>(sums[m],
                          {pack_pair<kFormat>(value(2 * m, 0), value(2 * m, 1)),
                           pack_pair<kFormat>(value(2 * m + 1, 0), value(2 * m + 1, 1)),
                           pack_pair<kFormat>(value(2 * m, 2), value(2 * m, 3)),
                           pack_pair<kFormat>(value(2 * m + 1, 2), value(2 * m + 1, 3))},
                          x[q]);
      }
    }
  }
};

}  // namespace kvlane::kernels::cuda::hack
