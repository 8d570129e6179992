// Vectors of floats from and to the number formats, and the functions that attention needs. For a
// file that Highway compiles once per instruction set: include it after hwy/foreach_target.h.

#if defined(KVLANE_KERNELS_COMMON_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_COMMON_SIMD_INL_H
#undef KVLANE_KERNELS_COMMON_SIMD_INL_H
#else
#define KVLANE_KERNELS_COMMON_SIMD_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/common/format.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

// Elements of the three formats as types; none needs alignment beyond its own.
using Bf16 = hwy::bfloat16_t;
using Fp16 = hwy::float16_t;

template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const Bf16* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}
// Where the instruction set converts halves itself. Elsewhere Highway 1.0 does not keep infinities
// and subnormals: one at a time then.
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
inline constexpr bool kConvertsHalves = false;
#else
inline constexpr bool kConvertsHalves = true;
#endif
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const Fp16* from) {
  if constexpr (kConvertsHalves) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
  } else {
    float lanes[hn::MaxLanes(d)];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = load(from, Format::fp16, i);
    return hn::LoadU(d, lanes);
  }
}

// 2 * lanes neighbouring elements: the even ones and the odd ones of bf16, whose conversion is one
// instruction each then; the lower and the upper half of other formats. Sums over all elements do
// not see the difference; to_two_floats and from_two_floats order others alike.
struct TwoFloats {
  FloatVec first, second;
};
template <class T>
HWY_INLINE TwoFloats load_two(Floats d, const T* from) {
  return {load_floats(d, from), load_floats(d, from + hn::Lanes(d))};
}
HWY_INLINE TwoFloats load_two(Floats d, const Bf16* from) {
  const hn::RebindToUnsigned<Floats> du;
  const auto bits = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(from));
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)),
          hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)))};
}

template <class D>
HWY_INLINE void store_floats(D d, hn::Vec<D> v, float* to) {
  hn::StoreU(v, d, to);
}
// To nearest, ties to even; NaN stays NaN.
template <class D>
HWY_INLINE void store_floats([[maybe_unused]] D d, hn::Vec<D> v, Bf16* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> dh;
  const auto bits = hn::BitCast(du, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto rounded = hn::ShiftRight<16>(
      hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), hn::And(high, hn::Set(du, 1u))));
  const auto nan = hn::Or(high, hn::Set(du, 0x40u));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, rounded);
  hn::StoreU(hn::TruncateTo(dh, chosen), dh, reinterpret_cast<std::uint16_t*>(to));
}
template <class D>
HWY_INLINE void store_floats([[maybe_unused]] D d, hn::Vec<D> v, Fp16* to) {
  if constexpr (kConvertsHalves) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, to);
  } else {
    float lanes[hn::MaxLanes(d)];
    hn::StoreU(v, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) store(to, Format::fp16, i, lanes[i]);
  }
}

// e^x; NaN stays NaN (Highway's own makes it 0). Below -104 it is 0.
template <class D>
HWY_INLINE hn::Vec<D> exp_or_nan(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// cap * tanh(x / cap), for any x; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> soft_capped(D d, hn::Vec<D> x, float cap) {
  const auto limit = hn::Set(d, 20.0f);  // tanh(20) is 1 in fp32
  const auto ratio = hn::Mul(x, hn::Set(d, 1 / cap));
  const auto clamped = hn::Max(hn::Min(ratio, limit), hn::Neg(limit));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(hn::Set(d, cap), hn::Tanh(d, clamped)));
}

using Four = hn::CappedTag<float, 4>;
using FourVec = hn::Vec<Four>;

// Lane h of the result: the lanes of rows[h] combined by op(d, a, b), for rows at and after Rows
// anything.
template <std::size_t Rows, class Op>
HWY_INLINE FourVec combine_lanes(const FloatVec (&rows)[Rows], const Op& op) {
  const Floats d;
  const hn::Repartition<double, Floats> dd;
  const auto a = rows[0], b = rows[Rows > 1 ? 1 : 0], c = rows[Rows > 2 ? 2 : 0],
             e = rows[Rows > 3 ? 3 : 0];
  const auto ab =
      hn::BitCast(dd, op(d, hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(dd, op(d, hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  const auto blocks = op(d, hn::BitCast(d, hn::InterleaveLower(dd, ab, ce)),
                         hn::BitCast(d, hn::InterleaveUpper(dd, ab, ce)));
  const Four four;
  if constexpr (hn::MaxLanes(Floats()) == 16) {
    const hn::Half<Floats> half;
    const auto eight = op(half, hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks));
    return op(four, hn::LowerHalf(four, eight), hn::UpperHalf(four, eight));
  } else if constexpr (hn::MaxLanes(Floats()) == 8) {
    return op(four, hn::LowerHalf(four, blocks), hn::UpperHalf(four, blocks));
  } else {
    return blocks;
  }
}
// The operations: lambdas do not inherit an instruction set.
struct TakeMin {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Min(a, b);
  }
};
struct TakeMax {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Max(a, b);
  }
};
struct TakeSum {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
};

// Calls body(tag), where typename decltype(tag)::type is the type of the format's elements.
template <class T>
struct Element {
  using type = T;
};
template <class Body>
HWY_INLINE void with_elements(Format format, const Body& body) {
  switch (format) {
    case Format::fp32:
      return body(Element<float>());
    case Format::fp16:
      return body(Element<Fp16>());
    case Format::bf16:
      return body(Element<Bf16>());
  }
}

// Heads of a group in blocks of 4 and one of the rest, which kernels hold in registers: calls
// body(first head, count as a constant).
template <class Body>
HWY_INLINE void over_heads(std::size_t group, const Body& body) {
  std::size_t h = 0;
  for (; h + 4 <= group; h += 4) body(h, std::integral_constant<std::size_t, 4>());
  if (group - h == 3) body(h, std::integral_constant<std::size_t, 3>());
  if (group - h == 2) body(h, std::integral_constant<std::size_t, 2>());
  if (group - h == 1) body(h, std::integral_constant<std::size_t, 1>());
}

// Elements [0, n) of a row of any format as floats and back, n any number.
template <class T>
HWY_INLINE void to_floats(const T* from, std::size_t n, float* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_floats(d, from + i), d, to + i);
  const hn::CappedTag<float, 1> d1;
  for (; i < n; ++i) hn::StoreU(load_floats(d1, from + i), d1, to + i);
}
template <class T>
HWY_INLINE void from_floats(const float* from, std::size_t n, T* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store_floats(d, hn::LoadU(d, from + i), to + i);
  const hn::CappedTag<float, 1> d1;
  for (; i < n; ++i) store_floats(d1, hn::LoadU(d1, from + i), to + i);
}

// The same in the order of load_two; the floats take whole pairs of vectors, 0 beyond n.
HWY_INLINE std::size_t two_floats(std::size_t n) {
  const std::size_t both = 2 * hn::Lanes(Floats());
  return (n + both - 1) / both * both;
}
template <class T>
HWY_INLINE void to_two_floats(const T* from, std::size_t n, float* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  T rest[2 * hn::MaxLanes(Floats())] = {};
  for (std::size_t i = 0; i < n; i += 2 * lanes) {
    const T* block = from + i;
    if (i + 2 * lanes > n) {
      std::copy_n(block, n - i, rest);
      block = rest;
    }
    const TwoFloats two = load_two(d, block);
    hn::StoreU(two.first, d, to + i);
    hn::StoreU(two.second, d, to + i + lanes);
  }
}
template <class T>
HWY_INLINE void from_two_floats(const float* from, std::size_t n, T* to) {
  if constexpr (!std::is_same_v<T, Bf16>) {
    from_floats(from, n, to);
  } else {
    const std::size_t lanes = hn::Lanes(Floats());
    float ordered[2 * hn::MaxLanes(Floats())];
    for (std::size_t i = 0; i < n; i += 2 * lanes) {
      for (std::size_t l = 0; l < lanes; ++l) {
        ordered[2 * l] = from[i + l];
        ordered[2 * l + 1] = from[i + lanes + l];
      }
      from_floats(ordered, std::min(n - i, 2 * lanes), to + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
