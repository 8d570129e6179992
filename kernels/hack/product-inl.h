// Products of a square of codes (layout.h) with up to four operands: in integers, and dequantised.
// For a file that Highway compiles once per instruction set, as simd-inl.h.

#if defined(KVLANE_KERNELS_HACK_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_HACK_PRODUCT_INL_H
#undef KVLANE_KERNELS_HACK_PRODUCT_INL_H
#else
#define KVLANE_KERNELS_HACK_PRODUCT_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/common/simd-inl.h"
#include "kernels/hack/layout.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kHackHeads = 4;   // query heads that share one unpacking of the codes
inline constexpr std::size_t kHackMost = 128;  // largest partition
inline constexpr std::size_t kHackLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kVectors = 2;  // of outputs: sums of four heads fit the registers

using Ints = hn::RebindToSigned<Floats>;
using IntVec = hn::Vec<Ints>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;
using ByteVec = hn::Vec<Bytes>;
using Shorts = hn::Repartition<std::int16_t, Floats>;
using ShortVec = hn::Vec<Shorts>;
using Bf16Pointer = const Bf16*;

// The lowest byte of each lane.
HWY_INLINE void store_low_bytes(hn::VFromD<hn::RebindToUnsigned<Floats>> v, std::int8_t* to) {
#if HWY_TARGET <= HWY_AVX3  // Highway 1.0.3 permutes them wrongly for AVX3_DL
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v.raw));
#else
  const hn::Rebind<std::uint8_t, Floats> d8;
  hn::StoreU(hn::TruncateTo(d8, v), d8, reinterpret_cast<std::uint8_t*>(to));
#endif
}

// Operands of one square: x ~ offset + step * u; base = sum of x * min of the codes' terms.
struct Operands {
  HWY_ALIGN std::int8_t u[kHackHeads][kHackMost];
  HWY_ALIGN float step[4], offset[4], base[4];
};

// x[h] + h * stride: terms of head h, without the scale of the codes, which is multiplied in here.
template <std::size_t Heads>
HWY_INLINE void make_operands(const float* x, std::size_t stride, Bf16Pointer scales,
                              Bf16Pointer mins, std::size_t terms, Operands& to) {
  const Floats d;
  HWY_ALIGN float scaled[Heads][kHackMost];
  FloatVec low[Heads], high[Heads], base[Heads];
  for (std::size_t h = 0; h < Heads; ++h) {
    low[h] = hn::Set(d, std::numeric_limits<float>::max());
    high[h] = hn::Neg(low[h]);
    base[h] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < terms; i += kHackLanes) {
    const auto scale = load_floats(d, scales + i), min = load_floats(d, mins + i);
    for (std::size_t h = 0; h < Heads; ++h) {
      const auto value = hn::LoadU(d, x + h * stride + i);
      const auto product = hn::Mul(value, scale);
      hn::Store(product, d, scaled[h] + i);
      low[h] = hn::Min(low[h], product);
      high[h] = hn::Max(high[h], product);
      base[h] = hn::MulAdd(value, min, base[h]);
    }
  }
  const Four four;
  const auto lowest = combine_lanes(low, TakeMin());
  const auto range = hn::Sub(combine_lanes(high, TakeMax()), lowest);
  // Below 1e-30 the inverse would leave fp32; such operands are constant for all purposes.
  const auto varies = hn::Gt(range, hn::Set(four, 1e-30f));
  const auto step = hn::IfThenElseZero(varies, hn::Mul(range, hn::Set(four, 1 / 255.0f)));
  const auto inverse = hn::IfThenElseZero(varies, hn::Div(hn::Set(four, 255.0f), range));
  HWY_ALIGN float smallest[4], inverses[4];
  hn::Store(lowest, four, smallest);
  hn::Store(inverse, four, inverses);
  hn::Store(step, four, to.step);
  hn::Store(hn::MulAdd(step, hn::Set(four, 128.0f), lowest), four, to.offset);
  hn::Store(combine_lanes(base, TakeSum()), four, to.base);
  const hn::RebindToUnsigned<Floats> du;
  for (std::size_t h = 0; h < Heads; ++h) {
    const auto least = hn::Set(d, smallest[h]), factor = hn::Set(d, inverses[h]);
    for (std::size_t i = 0; i < terms; i += kHackLanes) {
      // Next to 1.5 * 2^23 floats are integers, whose lowest byte is that of the float.
      const auto above = hn::Sub(hn::Load(d, scaled[h] + i), least);
      const auto u = hn::MulAdd(above, factor, hn::Set(d, 0x1.8p23f - 128));
      store_low_bytes(hn::BitCast(du, u), to.u[h] + i);
    }
  }
}

// body(plane as a constant) for each of the codes in a byte.
template <int Bits, int Plane = 0, class Body>
HWY_INLINE void over_planes(const Body& body) {
  body(std::integral_constant<int, Plane>());
  if constexpr ((Plane + 1) * Bits < 8) over_planes<Bits, Plane + 1>(body);
}

template <int Bits, int Plane>
HWY_INLINE ByteVec plane_of(ByteVec unit) {
  const Bytes d;
  const hn::RepartitionToWide<Bytes> wide;
  if constexpr (Bits == 8) return unit;
  const auto mask = hn::Set(d, static_cast<std::uint8_t>((1 << Bits) - 1));
  if constexpr (Plane == 0) return hn::And(unit, mask);
  return hn::And(hn::BitCast(d, hn::ShiftRight<Bits * Plane>(hn::BitCast(wide, unit))), mask);
}

// Where the v-th vector of a square's outputs begins in the first unit of its tile.
HWY_INLINE std::size_t vector_at(std::size_t v, std::size_t tile_bytes) {
  const std::size_t output = v * kHackLanes;
  return output / kHackTile * tile_bytes + output % kHackTile * 4;
}

// sum += codes (four to an int32, unsigned) . u (four, signed).
#if HWY_TARGET <= HWY_AVX3_DL
template <int Bits>
HWY_INLINE IntVec add_dots(IntVec sum, ByteVec codes, IntVec u) {
  return IntVec{_mm512_dpbusd_epi32(sum.raw, codes.raw, u.raw)};
}
inline constexpr bool kSums16 = false;
#else
#if HWY_TARGET <= HWY_AVX2
// Pairs, added up in 16 bits: of 2-bit codes at most 2 * 3 * 128 a pair, of 4-bit 2 * 15 * 128.
inline constexpr bool kSums16 = true;
HWY_INLINE ShortVec pair_dots(ByteVec codes, IntVec u) {
#if HWY_TARGET <= HWY_AVX3
  return ShortVec{_mm512_maddubs_epi16(codes.raw, u.raw)};
#else
  return ShortVec{_mm256_maddubs_epi16(codes.raw, u.raw)};
#endif
}
HWY_INLINE IntVec mul_pairs(ShortVec a, ShortVec b) {
#if HWY_TARGET <= HWY_AVX3
  return IntVec{_mm512_madd_epi16(a.raw, b.raw)};
#else
  return IntVec{_mm256_madd_epi16(a.raw, b.raw)};
#endif
}
#else
inline constexpr bool kSums16 = false;
// Each product fits 16 bits: 255 * -128 = -32640.
HWY_INLINE IntVec mul_pairs(ShortVec a, ShortVec b) {
  const Ints di;
  const auto products = hn::BitCast(di, hn::Mul(a, b));
  return hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(products)), hn::ShiftRight<16>(products));
}
#endif
// Even and odd terms apart, widened to 16 bits: nothing saturates, whatever the bits.
template <int Bits>
HWY_INLINE IntVec add_dots(IntVec sum, ByteVec codes, IntVec u) {
  const Shorts d;
  const auto code = hn::BitCast(d, codes), operand = hn::BitCast(d, u);
  const auto even =
      mul_pairs(hn::And(code, hn::Set(d, 0xff)), hn::ShiftRight<8>(hn::ShiftLeft<8>(operand)));
  const hn::RebindToUnsigned<Shorts> du;
  const auto odd = mul_pairs(hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(du, code))),
                             hn::ShiftRight<8>(operand));
  return hn::Add(sum, hn::Add(even, odd));
}
#endif

HWY_INLINE IntVec four_of(const std::int8_t* u) {
  std::int32_t four = 0;
  std::memcpy(&four, u, 4);
  return hn::Set(Ints(), four);
}

// sums[h][v] = codes . u of head h, for `Vectors` vectors of outputs.
template <int Bits, std::size_t Heads, std::size_t Vectors>
HWY_INLINE void dot_products(const std::uint8_t* codes, std::size_t tile_bytes,
                             const Operands& operands, IntVec (&sums)[Heads][Vectors]) {
  constexpr int kPlanes = 8 / Bits;
  const Bytes d;
  for (std::size_t h = 0; h < Heads; ++h) {
    for (std::size_t v = 0; v < Vectors; ++v) sums[h][v] = hn::Zero(Ints());
  }
  const std::size_t units = tile_bytes / kHackUnit;
#if HWY_TARGET <= HWY_AVX2
  if constexpr (kSums16 && Bits < 8) {
    // 2 bits: 32 additions at most, 24576; 4 bits: 8 additions, 30720.
    constexpr std::size_t kUnits = 32 / kPlanes / (Bits == 2 ? 1 : 4);
    for (std::size_t first = 0; first < units; first += kUnits) {
      ShortVec pairs[Heads][Vectors];
      for (std::size_t h = 0; h < Heads; ++h) {
        for (std::size_t v = 0; v < Vectors; ++v) pairs[h][v] = hn::Zero(Shorts());
      }
      for (std::size_t unit = first; unit < units && unit < first + kUnits; ++unit) {
        ByteVec loaded[Vectors];
        for (std::size_t v = 0; v < Vectors; ++v) {
          loaded[v] = hn::LoadU(d, codes + unit * kHackUnit + vector_at(v, tile_bytes));
        }
        over_planes<Bits>([&](auto plane) HWY_ATTR {
          const std::size_t term = (unit * kPlanes + static_cast<std::size_t>(plane)) * 4;
          ByteVec code[Vectors];
          for (std::size_t v = 0; v < Vectors; ++v) code[v] = plane_of<Bits, plane>(loaded[v]);
          for (std::size_t h = 0; h < Heads; ++h) {
            const auto u = four_of(operands.u[h] + term);
            for (std::size_t v = 0; v < Vectors; ++v) {
              pairs[h][v] = hn::Add(pairs[h][v], pair_dots(code[v], u));
            }
          }
        });
      }
      for (std::size_t h = 0; h < Heads; ++h) {
        for (std::size_t v = 0; v < Vectors; ++v) {
          sums[h][v] = hn::Add(sums[h][v], mul_pairs(pairs[h][v], hn::Set(Shorts(), 1)));
        }
      }
    }
    return;
  }
#endif
  for (std::size_t unit = 0; unit < units; ++unit) {
    ByteVec loaded[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) {
      loaded[v] = hn::LoadU(d, codes + unit * kHackUnit + vector_at(v, tile_bytes));
    }
    over_planes<Bits>([&](auto plane) HWY_ATTR {
      const std::size_t term = (unit * kPlanes + static_cast<std::size_t>(plane)) * 4;
      ByteVec code[Vectors];
      for (std::size_t v = 0; v < Vectors; ++v) code[v] = plane_of<Bits, plane>(loaded[v]);
      for (std::size_t h = 0; h < Heads; ++h) {
        const auto u = four_of(operands.u[h] + term);
        for (std::size_t v = 0; v < Vectors; ++v)
          sums[h][v] = add_dots<Bits>(sums[h][v], code[v], u);
      }
    });
  }
}

HWY_INLINE FloatVec load_sums(const std::byte* sums, std::size_t i, std::size_t sum_bytes) {
  const Floats d;
  const Ints di;
  if (sum_bytes == 1) {
    const hn::Rebind<std::uint8_t, Ints> d8;
    const auto* at = reinterpret_cast<const std::uint8_t*>(sums) + i;
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, at)));
  }
  const hn::Rebind<std::uint16_t, Ints> d16;
  const auto* at = reinterpret_cast<const std::uint16_t*>(sums) + i;
  return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, at)));
}

// What a square is: its codes, and min, scale and sums of its group.
struct Square {
  const std::uint8_t* codes;
  Bf16Pointer mins, scales;
  const std::byte* sums;
  std::size_t partition, tile_bytes, sum_bytes;
};

// out[h] = out[h] * keep[h] + (x[h] . codes, in integers, corrected), outputs of head h from out +
// h
// * stride.
template <int Bits, std::size_t Heads>
HWY_NOINLINE void integer_product(const Square& square, const float* x, std::size_t x_stride,
                                  const float* keep, float* out, std::size_t stride) {
  const Floats d;
  Operands operands;
  make_operands<Heads>(x, x_stride, square.scales, square.mins, square.partition, operands);
  for (std::size_t first = 0; first * kHackLanes < square.partition; first += kVectors) {
    IntVec sums[Heads][kVectors];
    dot_products<Bits, Heads, kVectors>(square.codes + vector_at(first, square.tile_bytes),
                                        square.tile_bytes, operands, sums);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t output = (first + v) * kHackLanes;
      const auto code_sum = load_sums(square.sums, output, square.sum_bytes);
      for (std::size_t h = 0; h < Heads; ++h) {
        float* at = out + h * stride + output;
        const auto before =
            hn::MulAdd(hn::LoadU(d, at), hn::Set(d, keep[h]), hn::Set(d, operands.base[h]));
        const auto offset = hn::MulAdd(hn::Set(d, operands.offset[h]), code_sum, before);
        hn::StoreU(hn::MulAdd(hn::Set(d, operands.step[h]), hn::ConvertTo(d, sums[h][v]), offset),
                   d, at);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
