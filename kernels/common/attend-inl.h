// One new query a sequence over rows of KV, on the CPU: what decode and sparse attention share. The
// rows of a (sequence, kv head) are cut into chunks of kChunk tokens, whatever the number of
// threads, so that a result does not depend on it; a chunk leaves maximum, sum and weighted values
// of a softmax that is not yet divided (Milakov & Gimelshein, arXiv 1805.02867), then chunks are
// merged. All query heads of a group share one reading of a row, and while a tile is computed the
// next one is prefetched.
//
// For a file that Highway compiles once per instruction set, as simd-inl.h.

#if defined(KVLANE_KERNELS_COMMON_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_COMMON_ATTEND_INL_H_
#undef KVLANE_KERNELS_COMMON_ATTEND_INL_H_
#else
#define KVLANE_KERNELS_COMMON_ATTEND_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/common/cpu.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kAttendTile = 32;     // rows whose logits are computed together
inline constexpr std::size_t kAttendChunk = 1024;  // rows of one task

struct AttendShape {
  std::size_t sequences, kv_heads, group, head_dim;
  float scale, soft_cap;
};

// Adds up the lanes of four vectors: to[i] = sum of the lanes of the i-th.
HWY_INLINE void SumFour(FloatVec a, FloatVec b, FloatVec c, FloatVec d, float* to) {
  const Floats df;
  const hn::Repartition<double, Floats> dd;
  const auto ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));
  const auto cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
  const auto low =
      hn::BitCast(df, hn::InterleaveLower(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd)));
  const auto high =
      hn::BitCast(df, hn::InterleaveUpper(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd)));
  const auto blocks = hn::Add(low, high);  // each block of four lanes holds partial sums
  if constexpr (hn::MaxLanes(Floats()) == 16) {
    const hn::Half<Floats> d8;
    const auto half = hn::Add(hn::LowerHalf(d8, blocks), hn::UpperHalf(d8, blocks));
    const hn::Half<hn::Half<Floats>> quarter;
    hn::StoreU(hn::Add(hn::LowerHalf(quarter, half), hn::UpperHalf(quarter, half)), quarter, to);
  } else if constexpr (hn::MaxLanes(Floats()) == 8) {
    const hn::Half<Floats> half;
    hn::StoreU(hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks)), half, to);
  } else {
    hn::StoreU(blocks, df, to);
  }
}

// Logits of `Heads` queries against four rows.
template <std::size_t Heads, class T>
HWY_INLINE void FourLogits(const T* const* rows, const float* query, std::size_t head_dim,
                           float* logits) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec sum[Heads][4];
  for (std::size_t h = 0; h < Heads; ++h) {
    for (std::size_t t = 0; t < 4; ++t) sum[h][t] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < head_dim; i += lanes) {
    FloatVec key[4];
    for (std::size_t t = 0; t < 4; ++t) key[t] = LoadFloats(d, rows[t] + i);
    for (std::size_t h = 0; h < Heads; ++h) {
      const auto q = hn::LoadU(d, query + h * head_dim + i);
      for (std::size_t t = 0; t < 4; ++t) sum[h][t] = hn::MulAdd(q, key[t], sum[h][t]);
    }
  }
  for (std::size_t h = 0; h < Heads; ++h) {
    SumFour(sum[h][0], sum[h][1], sum[h][2], sum[h][3], logits + h * kAttendTile);
  }
}

// values[h] = values[h] * keep[h] + sum over rows of weights[h][row] * V[row].
template <std::size_t Heads, class T>
HWY_INLINE void AddValues(const T* const* rows, std::size_t n, const float* weights,
                          const float* keep, std::size_t head_dim, float* values) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < head_dim; i += lanes) {
    FloatVec sum[Heads];
    for (std::size_t h = 0; h < Heads; ++h) {
      sum[h] = hn::Mul(hn::LoadU(d, values + h * head_dim + i), hn::Set(d, keep[h]));
    }
    for (std::size_t t = 0; t < n; ++t) {
      const auto value = LoadFloats(d, rows[t] + head_dim + i);
      for (std::size_t h = 0; h < Heads; ++h) {
        const float weight = weights[h * kAttendTile + t];
        sum[h] = hn::MulAdd(hn::Set(d, weight), value, sum[h]);
      }
    }
    for (std::size_t h = 0; h < Heads; ++h) {
      hn::StoreU(sum[h], d, values + h * head_dim + i);
    }
  }
}

// Calls body(h, count as a constant) over the heads of a group, four or fewer at a time.
template <class Four, class Two, class One>
HWY_INLINE void OverHeads(std::size_t group, Four&& four, Two&& two, One&& one) {
  std::size_t h = 0;
  for (; h + 4 <= group; h += 4) four(h);
  for (; h + 2 <= group; h += 2) two(h);
  if (h < group) one(h);
}

// What a chunk leaves: top and sum of each head, then its values.
HWY_INLINE std::size_t ChunkFloats(const AttendShape& shape) {
  return shape.group * (shape.head_dim + 2);
}

// One chunk of one kv head: `fill(first, n, rows)` names the rows. `work`: group * (head_dim +
// kAttendTile + 1) floats.
template <class T, class Fill>
HWY_INLINE void AttendChunk(const AttendShape& shape, const T* query, std::size_t first,
                            std::size_t last, const Fill& fill, float* work, float* left) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), group = shape.group, head_dim = shape.head_dim;
  float* top = left;
  float* sum = left + group;
  float* values = left + 2 * group;
  float* scaled = work;
  float* logits = scaled + group * head_dim;
  float* keep = logits + group * kAttendTile;
  ToFloats(query, group * head_dim, scaled);
  for (std::size_t i = 0; i < group * head_dim; ++i) scaled[i] *= shape.scale;
  const float lowest = -std::numeric_limits<float>::infinity();
  std::fill_n(top, group, lowest);
  std::fill_n(sum, group, 0.0f);
  std::fill_n(values, group * head_dim, 0.0f);

  const T* rows[2][kAttendTile + 4];
  std::size_t n = std::min(kAttendTile, last - first);
  fill(first, n, rows[0]);
  int now = 0;
  const std::size_t row_bytes = 2 * head_dim * sizeof(T);
  for (std::size_t at = first; at < last; now ^= 1) {
    const T** here = rows[now];
    const T** next = rows[now ^ 1];
    for (std::size_t t = n; t % 4 != 0; ++t) here[t] = here[n - 1];  // read again, not counted
    const std::size_t follow = std::min(kAttendTile, last - (at + n));
    if (follow > 0) fill(at + n, follow, next);
    for (std::size_t t = 0; t < n; t += 4) {
      for (std::size_t ahead = t; ahead < std::min(t + 4, follow); ++ahead) {
        const char* line = reinterpret_cast<const char*>(next[ahead]);
        for (std::size_t byte = 0; byte < row_bytes; byte += 64) __builtin_prefetch(line + byte);
      }
      const auto of = [&](std::size_t h) { return logits + h * kAttendTile + t; };
      OverHeads(
          group,
          [&](std::size_t h) { FourLogits<4>(here + t, scaled + h * head_dim, head_dim, of(h)); },
          [&](std::size_t h) { FourLogits<2>(here + t, scaled + h * head_dim, head_dim, of(h)); },
          [&](std::size_t h) { FourLogits<1>(here + t, scaled + h * head_dim, head_dim, of(h)); });
    }
    for (std::size_t h = 0; h < group; ++h) {
      float* row = logits + h * kAttendTile;
      for (std::size_t t = n; t < kAttendTile; ++t) row[t] = lowest;
      auto largest = hn::Set(d, lowest);
      for (std::size_t t = 0; t < kAttendTile; t += lanes) {
        auto x = hn::LoadU(d, row + t);
        if (shape.soft_cap > 0 && t < n) {
          x = hn::IfThenElse(hn::FirstN(d, n - t), SoftCap(d, x, shape.soft_cap), x);
          hn::StoreU(x, d, row + t);
        }
        largest = hn::Max(largest, x);
      }
      const float before = top[h];
      const float after = std::max(before, hn::GetLane(hn::MaxOfLanes(d, largest)));
      // Where every logit so far is -infinity, 0 stands for the maximum: all weights are 0.
      const float base = after == lowest ? 0 : after;
      keep[h] = before == lowest ? 0 : std::exp(before - base);
      auto added = hn::Zero(d);
      for (std::size_t t = 0; t < kAttendTile; t += lanes) {
        const auto weight = ExpOrNaN(d, hn::Sub(hn::LoadU(d, row + t), hn::Set(d, base)));
        hn::StoreU(weight, d, row + t);
        added = hn::Add(added, weight);
      }
      top[h] = after;
      sum[h] = sum[h] * keep[h] + hn::GetLane(hn::SumOfLanes(d, added));
    }
    const auto values_of = [&](std::size_t h) { return values + h * head_dim; };
    const auto weights_of = [&](std::size_t h) { return logits + h * kAttendTile; };
    OverHeads(
        group,
        [&](std::size_t h) {
          AddValues<4>(here, n, weights_of(h), keep + h, head_dim, values_of(h));
        },
        [&](std::size_t h) {
          AddValues<2>(here, n, weights_of(h), keep + h, head_dim, values_of(h));
        },
        [&](std::size_t h) {
          AddValues<1>(here, n, weights_of(h), keep + h, head_dim, values_of(h));
        });
    at += n;
    n = follow;
  }
}

// The chunks of one kv head put together. No chunks: 0.
template <class T>
HWY_INLINE void MergeChunks(const AttendShape& shape, const float* left, std::size_t chunks,
                            float* work, T* out) {
  const std::size_t group = shape.group, head_dim = shape.head_dim, step = ChunkFloats(shape);
  const float lowest = -std::numeric_limits<float>::infinity();
  for (std::size_t h = 0; h < group; ++h) {
    float top = lowest, sum = 0;
    for (std::size_t c = 0; c < chunks; ++c) top = std::max(top, left[c * step + h]);
    const float base = top == lowest ? 0 : top;
    std::fill_n(work, head_dim, 0.0f);
    for (std::size_t c = 0; c < chunks; ++c) {
      const float* chunk = left + c * step;
      const float weight = chunk[h] == lowest ? 0 : std::exp(chunk[h] - base);
      sum += weight * chunk[group + h];
      const float* values = chunk + 2 * group + h * head_dim;
      for (std::size_t i = 0; i < head_dim; ++i) work[i] += weight * values[i];
    }
    if (chunks > 0) {
      for (std::size_t i = 0; i < head_dim; ++i) work[i] /= sum;
    }
    FromFloats(work, head_dim, out + h * head_dim);
  }
}

// rows_of(sequence, kv head) counts rows; fill(sequence, kv head, first, n, rows) names some.
template <class T, class Rows, class Fill>
void AttendAll(const AttendShape& shape, const T* query, T* out, std::size_t most_rows,
               const Rows& rows_of, const Fill& fill, Cpu& cpu) {
  const std::size_t pairs = shape.sequences * shape.kv_heads;
  const std::size_t chunks = (most_rows + kAttendChunk - 1) / kAttendChunk;
  const std::size_t step = ChunkFloats(shape), group_floats = shape.group * shape.head_dim;
  const std::size_t work = shape.group * (shape.head_dim + kAttendTile + 1);
  const std::size_t work_step = (work + 15) / 16 * 16;
  auto* memory = static_cast<float*>(
      cpu.scratch((static_cast<std::size_t>(cpu.threads()) * work_step + pairs * chunks * step) *
                  sizeof(float)));
  float* left = memory + static_cast<std::size_t>(cpu.threads()) * work_step;
  const auto mine = [&](int worker) {
    return memory + static_cast<std::size_t>(worker) * work_step;
  };
  cpu.parallel_for(pairs * chunks, [&](std::size_t task, int worker) {
    const std::size_t pair = task / chunks, first = task % chunks * kAttendChunk;
    const std::size_t rows = rows_of(pair / shape.kv_heads, pair % shape.kv_heads);
    if (first >= rows) return;
    AttendChunk<T>(
        shape, query + pair * group_floats, first, std::min(rows, first + kAttendChunk),
        [&](std::size_t from, std::size_t n, const T** to) {
          fill(pair / shape.kv_heads, pair % shape.kv_heads, from, n, to);
        },
        mine(worker), left + task * step);
  });
  cpu.parallel_for(pairs, [&](std::size_t pair, int worker) {
    const std::size_t rows = rows_of(pair / shape.kv_heads, pair % shape.kv_heads);
    MergeChunks(shape, left + pair * chunks * step, (rows + kAttendChunk - 1) / kAttendChunk,
                mine(worker), out + pair * group_floats);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
