// Quantises a partition of one head: vectors run over channels, for K and for V. For a file that
// Highway compiles once per instruction set, as simd-inl.h.

#if defined(KVLANE_KERNELS_HACK_APPEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_HACK_APPEND_INL_H
#undef KVLANE_KERNELS_HACK_APPEND_INL_H
#else
#define KVLANE_KERNELS_HACK_APPEND_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/common/simd-inl.h"
#include "kernels/hack/layout.h"
#include "kernels/hack/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kMostTokens = 128;  // of a partition
inline constexpr std::size_t kMostChannels = 256;

// Codes of a vector of values: to nearest, within [0, levels]; 0 where the scale is 0.
HWY_INLINE void store_codes(FloatVec x, FloatVec min, FloatVec scale, float levels,
                            std::uint8_t* to) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::uint8_t, decltype(di)> d8;
  const auto steps = hn::Div(hn::Sub(x, min), scale);
  const auto inside = hn::Min(hn::Max(steps, hn::Zero(d)), hn::Set(d, levels));
  const auto known = hn::IfThenElseZero(hn::Gt(scale, hn::Zero(d)), inside);
  hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(known)), d8, to);
}

HWY_INLINE void store_sums(const std::uint16_t* sums, std::size_t n, std::size_t sum_bytes,
                           std::byte* to) {
  if (sum_bytes == 2) {
    std::memcpy(to, sums, n * 2);
  } else {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(sums[i]);
  }
}

// Sends for the row some turns after the t-th of n: rows of a head lie a page apart where there are
// many heads, and nothing else would.
template <class T>
HWY_INLINE void ask_for_row(const T* const* rows, std::size_t t, std::size_t n, std::size_t dim) {
  constexpr std::size_t kTurns = 8;
  if (t + kTurns >= n) return;
  const auto* row = reinterpret_cast<const char*>(rows[t + kTurns]);
  for (std::size_t byte = 0; byte < dim * sizeof(T); byte += 64) __builtin_prefetch(row + byte);
}

// K: `rows` of a partition's tokens; min and scale a channel.
template <class T>
HWY_NOINLINE void quantise_keys(const HackLayout& layout, const T* const* rows, std::byte* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), n = layout.partition, dim = layout.head_dim;
  const int bits = static_cast<int>(layout.bits);
  const auto levels = static_cast<float>((1 << bits) - 1);
  HWY_ALIGN float min[kMostChannels], scale[kMostChannels];
  // Row by row: rows a power of two apart share their places in a cache.
  HWY_ALIGN float lows[kMostChannels], highs[kMostChannels], zeros[kMostChannels];
  for (std::size_t c = 0; c < dim; c += lanes) {
    const auto x = load_floats(d, rows[0] + c);
    hn::Store(x, d, lows + c);
    hn::Store(x, d, highs + c);
    hn::Store(hn::Mul(x, hn::Zero(d)), d, zeros + c);  // NaN unless all are finite
  }
  for (std::size_t t = 1; t < n; ++t) {
    ask_for_row(rows, t, n, dim);
    for (std::size_t c = 0; c < dim; c += lanes) {
      const auto x = load_floats(d, rows[t] + c);
      hn::Store(hn::Min(hn::Load(d, lows + c), x), d, lows + c);
      hn::Store(hn::Max(hn::Load(d, highs + c), x), d, highs + c);
      hn::Store(hn::MulAdd(x, hn::Zero(d), hn::Load(d, zeros + c)), d, zeros + c);
    }
  }
  for (std::size_t c = 0; c < dim; ++c) {
    const HackRange range = hack_range(lows[c], highs[c], zeros[c] == 0, bits);
    std::memcpy(to + layout.mins + c * 2, &range.min, 2);
    std::memcpy(to + layout.scales + c * 2, &range.scale, 2);
    min[c] = from_bf16(range.min);
    scale[c] = from_bf16(range.scale);
  }
  const std::size_t planes = 8 / layout.bits, units = n / (4 * planes);
  for (std::size_t t = 0; t < n; ++t) {
    HWY_ALIGN std::uint8_t codes[kMostChannels];
    for (std::size_t c = 0; c < dim; c += lanes) {
      store_codes(load_floats(d, rows[t] + c), hn::Load(d, min + c), hn::Load(d, scale + c), levels,
                  codes + c);
    }
    for (std::size_t group = 0; group < layout.groups; ++group) {
      const std::uint8_t* from = codes + group * n;
      std::byte* unit =
          to + group * layout.square + t / kHackTile * layout.tile_bytes() + t % kHackTile * 4;
      for (std::size_t u = 0; u < units; ++u, unit += kHackUnit) {
        std::uint32_t packed = 0;
        for (std::size_t plane = 0; plane < planes; ++plane, from += 4) {
          std::uint32_t four = 0;
          std::memcpy(&four, from, 4);
          packed |= four << (plane * layout.bits);
        }
        std::memcpy(unit, &packed, 4);
      }
      std::uint16_t sum = 0;
      from = codes + group * n;
      for (std::size_t c = 0; c < n; ++c) sum = static_cast<std::uint16_t>(sum + from[c]);
      store_sums(&sum, 1, layout.sum_bytes, to + layout.sums + (group * n + t) * layout.sum_bytes);
    }
  }
}

// Four terms of 16 outputs, rows of codes, as a unit has them: shifted up and added to it.
HWY_INLINE void add_plane(const std::uint8_t* codes, std::size_t stride, std::size_t shift,
                          std::byte* unit) {
  const hn::Full128<std::uint8_t> d8;
  const hn::Full128<std::uint16_t> d16;
  const auto a = hn::LoadU(d8, codes), b = hn::LoadU(d8, codes + stride);
  const auto c = hn::LoadU(d8, codes + 2 * stride), e = hn::LoadU(d8, codes + 3 * stride);
  const auto ab = hn::BitCast(d16, hn::InterleaveLower(d8, a, b));
  const auto ab_high = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b));
  const auto ce = hn::BitCast(d16, hn::InterleaveLower(d8, c, e));
  const auto ce_high = hn::BitCast(d16, hn::InterleaveUpper(d8, c, e));
  const decltype(ab) quads[] = {hn::InterleaveLower(d16, ab, ce), hn::InterleaveUpper(d16, ab, ce),
                                hn::InterleaveLower(d16, ab_high, ce_high),
                                hn::InterleaveUpper(d16, ab_high, ce_high)};
  auto* to = reinterpret_cast<std::uint16_t*>(unit);
  for (std::size_t i = 0; i < 4; ++i) {
    // Codes leave their byte no room to overflow into the next.
    const auto shifted = hn::ShiftLeftSame(quads[i], static_cast<int>(shift));
    hn::StoreU(shift == 0 ? shifted : hn::Or(shifted, hn::LoadU(d16, to + 8 * i)), d16, to + 8 * i);
  }
}

// V: min and scale a token and group of channels.
template <class T>
HWY_NOINLINE void quantise_values(const HackLayout& layout, const T* const* rows, std::byte* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), n = layout.partition;
  const int bits = static_cast<int>(layout.bits);
  const auto levels = static_cast<float>((1 << bits) - 1);
  const std::size_t planes = 8 / layout.bits;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    HWY_ALIGN std::uint8_t codes[kMostTokens * kMostTokens];
    HWY_ALIGN std::uint16_t sums[kMostTokens] = {};
    for (std::size_t t = 0; t < n; ++t) {
      if (group == 0) ask_for_row(rows, t, n, layout.head_dim);
      const T* row = rows[t] + group * n;
      auto low = load_floats(d, row), high = low, zero = hn::Zero(d);
      for (std::size_t c = 0; c < n; c += lanes) {
        const auto x = load_floats(d, row + c);
        low = hn::Min(low, x);
        high = hn::Max(high, x);
        zero = hn::MulAdd(x, hn::Zero(d), zero);
      }
      const HackRange range =
          hack_range(hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high)),
                     hn::GetLane(hn::SumOfLanes(d, zero)) == 0, bits);
      std::memcpy(to + layout.mins + (group * n + t) * 2, &range.min, 2);
      std::memcpy(to + layout.scales + (group * n + t) * 2, &range.scale, 2);
      const auto min = hn::Set(d, from_bf16(range.min)), scale = hn::Set(d, from_bf16(range.scale));
      for (std::size_t c = 0; c < n; c += lanes) {
        store_codes(load_floats(d, row + c), min, scale, levels, codes + t * n + c);
      }
      for (std::size_t c = 0; c < n; ++c) {
        sums[c] = static_cast<std::uint16_t>(sums[c] + codes[t * n + c]);
      }
    }
    for (std::size_t c = 0; c < n; c += kHackTile) {
      std::byte* unit = to + group * layout.square + c / kHackTile * layout.tile_bytes();
      for (std::size_t t = 0; t < n; t += 4 * planes, unit += kHackUnit) {
        for (std::size_t plane = 0; plane < planes; ++plane) {
          add_plane(codes + (t + 4 * plane) * n + c, n, plane * layout.bits, unit);
        }
      }
    }
    store_sums(sums, n, layout.sum_bytes, to + layout.sums + group * n * layout.sum_bytes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
