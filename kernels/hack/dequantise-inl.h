// The rival of the integer product: the codes of a square become fp32 values in registers, which
// are multiplied with operands in fp32. For a file that Highway compiles once per instruction set,
// as simd-inl.h.

#if defined(KVLANE_KERNELS_HACK_DEQUANTISE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_HACK_DEQUANTISE_INL_H
#undef KVLANE_KERNELS_HACK_DEQUANTISE_INL_H
#else
#define KVLANE_KERNELS_HACK_DEQUANTISE_INL_H
#endif

#include "kernels/hack/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

// Four numbers a term: the values of its 2-bit codes, so that a permutation by the code's bits
// dequantises; else min and scale.
struct Values {
  HWY_ALIGN float of[kHackMost][4];
};

#if HWY_TARGET <= HWY_AVX2
inline constexpr bool kLookUp = true;  // a permutation that looks at the lowest two bits only
HWY_INLINE FloatVec look_up(const float* four, IntVec code) {
#if HWY_TARGET <= HWY_AVX3
  return FloatVec{_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_load_ps(four)), code.raw)};
#else
  return FloatVec{
      _mm256_permutevar_ps(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(four)), code.raw)};
#endif
}
#else
inline constexpr bool kLookUp = false;
HWY_INLINE FloatVec look_up(const float*, IntVec) { return hn::Zero(Floats()); }
#endif

template <int Bits>
HWY_INLINE void make_values(const Square& square, Values& to) {
  const Floats d;
  HWY_ALIGN float mins[kHackMost], scales[kHackMost];
  for (std::size_t i = 0; i < square.partition; i += kHackLanes) {
    hn::Store(load_floats(d, square.mins + i), d, mins + i);
    hn::Store(load_floats(d, square.scales + i), d, scales + i);
  }
  for (std::size_t term = 0; term < square.partition; ++term) {
    float* of = to.of[term];
    of[0] = mins[term];
    if constexpr (Bits == 2 && kLookUp) {
      for (int code = 1; code < 4; ++code) {
        of[code] = mins[term] + static_cast<float>(code) * scales[term];
      }
    } else {
      of[1] = scales[term];
    }
  }
}

// The value of the code that begins at bit `Shift` of each lane.
template <int Bits, int Shift>
HWY_INLINE FloatVec value_of(IntVec unit, const float* of) {
  const Floats d;
  const Ints di;
  const hn::RebindToUnsigned<Ints> du;
  auto shifted = unit;
  if constexpr (Shift != 0) {
    shifted = hn::BitCast(di, hn::ShiftRight<Shift>(hn::BitCast(du, unit)));
  }
  if constexpr (Bits == 2 && kLookUp) return look_up(of, shifted);
  const auto code = Shift + Bits == 32 ? shifted : hn::And(shifted, hn::Set(di, (1 << Bits) - 1));
  return hn::MulAdd(hn::ConvertTo(d, code), hn::Set(d, of[1]), hn::Set(d, of[0]));
}

template <int Bits, int Code, std::size_t Heads, std::size_t Vectors>
HWY_INLINE void add_terms(const IntVec (&unit)[Vectors], const float* const* x, std::size_t first,
                          const Values& values, FloatVec (&sums)[Heads][Vectors]) {
  // Codes lie in terms of a byte first, then in planes: the term of the code at bit 8 * b + Bits *
  // p is 4 * p + b.
  constexpr int kByte = Code % 4, kPlane = Code / 4;
  const std::size_t term = first + static_cast<std::size_t>(Code);
  FloatVec value[Vectors];
  for (std::size_t v = 0; v < Vectors; ++v) {
    value[v] = value_of<Bits, 8 * kByte + Bits * kPlane>(unit[v], values.of[term]);
  }
  for (std::size_t h = 0; h < Heads; ++h) {
    const auto operand = hn::Set(Floats(), x[h][term]);
    for (std::size_t v = 0; v < Vectors; ++v)
      sums[h][v] = hn::MulAdd(operand, value[v], sums[h][v]);
  }
  if constexpr (Code + 1 < 32 / Bits) {
    add_terms<Bits, Code + 1>(unit, x, first, values, sums);
  }
}

// As integer_product.
template <int Bits, std::size_t Heads>
HWY_NOINLINE void dequantised_product(const Square& square, const float* x, std::size_t x_stride,
                                      const float* keep, float* out, std::size_t stride) {
  const Floats d;
  Values values;
  make_values<Bits>(square, values);
  const float* operands[Heads];
  for (std::size_t h = 0; h < Heads; ++h) operands[h] = x + h * x_stride;
  for (std::size_t first = 0; first * kHackLanes < square.partition; first += kVectors) {
    FloatVec sums[Heads][kVectors];
    float* at = out + first * kHackLanes;
    for (std::size_t h = 0; h < Heads; ++h) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[h][v] = hn::Mul(hn::Set(d, keep[h]), hn::LoadU(d, at + h * stride + v * kHackLanes));
      }
    }
    const std::uint8_t* codes = square.codes + vector_at(first, square.tile_bytes);
    for (std::size_t unit = 0; unit * kHackUnit < square.tile_bytes; ++unit) {
      IntVec loaded[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) {
        const auto* from = codes + unit * kHackUnit + vector_at(v, square.tile_bytes);
        loaded[v] = hn::BitCast(Ints(), hn::LoadU(Bytes(), from));
      }
      add_terms<Bits, 0>(loaded, operands, unit * static_cast<std::size_t>(32 / Bits), values,
                         sums);
    }
    for (std::size_t h = 0; h < Heads; ++h) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        hn::StoreU(sums[h][v], d, at + h * stride + v * kHackLanes);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
