// One new query a sequence over rows of KV, on the CPU: what decode and sparse attention share. The
// rows of a sequence are cut into chunks, whatever the number of threads, so that a result does not
// depend on it; a chunk leaves maximum, sum and weighted values of a softmax that is not yet
// divided (Milakov & Gimelshein, arXiv 1805.02867), then chunks are merged. All query heads of a
// group share one reading of a row.
//
// For a file that Highway compiles once per instruction set, as simd-inl.h.

#if defined(KVLANE_KERNELS_COMMON_ATTEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_COMMON_ATTEND_INL_H
#undef KVLANE_KERNELS_COMMON_ATTEND_INL_H
#else
#define KVLANE_KERNELS_COMMON_ATTEND_INL_H
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

inline constexpr std::size_t kAttendTile = 16;    // rows whose logits are computed together
inline constexpr std::size_t kAttendChunk = 256;  // rows of each head in one task
inline constexpr std::size_t kAttendAhead = 3;    // tiles that are prefetched

struct AttendShape {
  std::size_t sequences, kv_heads, group, head_dim;
  float scale, soft_cap;
  // Floats of a query, an output and, in kernels, a row of K or of V: head_dim up to whole pairs of
  // vectors, in the order of load_two.
  std::size_t width() const { return two_floats(head_dim); }
};

// Rows of a later tile on their way into the second-level cache, a line at a time in the order of
// memory, evenly over the work on the tile at hand: in bursts a processor drops what its few
// buffers of the first level cannot hold.
class Ahead {
 public:
  // Sizes of rows are rounded up to a power of two, as they are but for odd head dimensions.
  Ahead(const void* const* rows, std::size_t n, std::size_t row_bytes) : rows_(rows), end_(n) {
    while ((std::size_t{1} << shift_) < row_bytes) ++shift_;
    end_ <<= shift_;
  }
  template <std::size_t Lines>
  HWY_INLINE void fetch() {
    if (at_ >= end_) return;
    const char* line =
        static_cast<const char*>(rows_[at_ >> shift_]) + (at_ & ((std::size_t{1} << shift_) - 1));
    for (std::size_t l = 0; l < Lines; ++l) __builtin_prefetch(line + l * 64, 0, 2);
    at_ += Lines * 64;
  }

 private:
  const void* const* rows_;
  std::size_t end_, shift_ = 6, at_ = 0;
};

// Logits of `Heads` queries against four rows.
template <std::size_t Heads, class T>
HWY_INLINE void four_logits(const T* const* rows, Ahead* ahead, const float* query,
                            std::size_t width, float* logits) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  // As many lines as a turn of K works on; those of V bring the other half.
  constexpr std::size_t kLines = 8 * hn::MaxLanes(Floats()) * sizeof(T) / 64;
  constexpr std::size_t kTimes = Heads >= 4 && kLines >= 2 ? 2 : 1;
  FloatVec sum[Heads][4];
  for (std::size_t h = 0; h < Heads; ++h) {
    for (std::size_t t = 0; t < 4; ++t) sum[h][t] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < width; i += 2 * lanes) {
    TwoFloats key[4];
    for (std::size_t t = 0; t < 4; ++t) key[t] = load_two(d, rows[t] + i);
    for (std::size_t h = 0; h < Heads; ++h) {
      const auto q0 = hn::LoadU(d, query + h * width + i);
      for (std::size_t t = 0; t < 4; ++t) sum[h][t] = hn::MulAdd(q0, key[t].first, sum[h][t]);
      const auto q1 = hn::LoadU(d, query + h * width + i + lanes);
      for (std::size_t t = 0; t < 4; ++t) sum[h][t] = hn::MulAdd(q1, key[t].second, sum[h][t]);
      if (ahead != nullptr && h % (Heads / kTimes) == 0) ahead->fetch<kLines / kTimes>();
    }
  }
  for (std::size_t h = 0; h < Heads; ++h) {
    hn::StoreU(combine_lanes(sum[h], TakeSum()), Four(), logits + h * kAttendTile);
  }
}

// values[h] = values[h] * keep[h] + sum over rows of weights[h][row] * V[row].
template <std::size_t Heads, class T>
HWY_INLINE void add_values(const T* const* rows, Ahead* ahead, std::size_t n, const float* weights,
                           const float* keep, std::size_t width, float* values) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kBytes = 2 * hn::MaxLanes(Floats()) * sizeof(T);
  constexpr std::size_t kTurns = std::max<std::size_t>(1, 64 / kBytes);
  for (std::size_t i = 0; i < width; i += 2 * lanes) {
    FloatVec first[Heads], second[Heads];
    for (std::size_t h = 0; h < Heads; ++h) {
      const auto kept = hn::Set(d, keep[h]);
      first[h] = hn::Mul(hn::LoadU(d, values + h * width + i), kept);
      second[h] = hn::Mul(hn::LoadU(d, values + h * width + i + lanes), kept);
    }
    for (std::size_t t = 0; t < n; ++t) {
      const TwoFloats value = load_two(d, rows[t] + width + i);
      if (ahead != nullptr && t % kTurns == 0)
        ahead->fetch<std::max<std::size_t>(1, kBytes / 64)>();
      for (std::size_t h = 0; h < Heads; ++h) {
        const auto weight = hn::Set(d, weights[h * kAttendTile + t]);
        first[h] = hn::MulAdd(weight, value.first, first[h]);
        second[h] = hn::MulAdd(weight, value.second, second[h]);
      }
    }
    for (std::size_t h = 0; h < Heads; ++h) {
      hn::StoreU(first[h], d, values + h * width + i);
      hn::StoreU(second[h], d, values + h * width + i + lanes);
    }
  }
}

// What a chunk leaves a kv head: top and sum of each query head, then their values.
HWY_INLINE std::size_t chunk_floats(const AttendShape& shape) {
  return shape.group * (shape.width() + 2);
}

// Logits of a tile, already computed, into weights; updates top and sum, `keep` is what values so
// far are multiplied by.
HWY_INLINE void weigh_tile(float* logits, std::size_t n, float soft_cap, float& top, float& sum,
                           float& keep) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const float lowest = -std::numeric_limits<float>::infinity();
  for (std::size_t t = n; t % lanes != 0; ++t) logits[t] = lowest;
  auto largest = hn::Set(d, lowest);
  for (std::size_t t = 0; t < n; t += lanes) {
    auto x = hn::LoadU(d, logits + t);
    if (soft_cap > 0) {
      x = hn::IfThenElse(hn::FirstN(d, n - t), soft_capped(d, x, soft_cap), x);
      hn::StoreU(x, d, logits + t);
    }
    largest = hn::Max(largest, x);
  }
  const float before = top;
  top = std::max(before, hn::GetLane(hn::MaxOfLanes(d, largest)));
  // Where every logit so far is -infinity, 0 stands for the maximum: all weights are 0.
  const float base = top == lowest ? 0 : top;
  keep = before == top ? 1 : before == lowest ? 0 : std::exp(before - base);
  auto added = hn::Zero(d);
  for (std::size_t t = 0; t < n; t += lanes) {
    const auto weight = exp_or_nan(d, hn::Sub(hn::LoadU(d, logits + t), hn::Set(d, base)));
    hn::StoreU(weight, d, logits + t);
    added = hn::Add(added, weight);
  }
  sum = sum * keep + hn::GetLane(hn::SumOfLanes(d, added));
}

// One tile of one kv head. rows[n ... ] is filled up to a multiple of four.
template <class T>
HWY_INLINE void attend_tile(const AttendShape& shape, const T* const* rows, Ahead& ahead,
                            std::size_t n, const float* scaled, float* logits, float* keep,
                            float* left) {
  const std::size_t group = shape.group, width = shape.width();
  float* values = left + 2 * group;
  for (std::size_t t = 0; t < n; t += 4) {
    const auto of = [&](std::size_t h) { return logits + h * kAttendTile + t; };
    const auto query = [&](std::size_t h) { return scaled + h * width; };
    over_heads(group, [&](std::size_t h, auto heads) HWY_ATTR {
      four_logits<heads>(rows + t, h == 0 ? &ahead : nullptr, query(h), width, of(h));
    });
  }
  for (std::size_t h = 0; h < group; ++h) {
    weigh_tile(logits + h * kAttendTile, n, shape.soft_cap, left[h], left[group + h], keep[h]);
  }
  const auto weights = [&](std::size_t h) { return logits + h * kAttendTile; };
  const auto of = [&](std::size_t h) { return values + h * width; };
  over_heads(group, [&](std::size_t h, auto heads) HWY_ATTR {
    add_values<heads>(rows, h == 0 ? &ahead : nullptr, n, weights(h), keep + h, width, of(h));
  });
}

HWY_INLINE std::size_t attend_work(const AttendShape& shape) {
  const std::size_t queries = shape.kv_heads * shape.group * shape.width();
  const std::size_t rows =
      shape.width() == shape.head_dim ? 0 : (kAttendAhead + 1) * kAttendTile * 2 * shape.width();
  return shape.group * (kAttendTile + 1) + queries + rows;
}

// Rows [first, first + kAttendChunk) of every kv head of a sequence, a tile of each head in turn:
// so a block-major cache is read from front to end. rows_of(head) counts rows, fill(head, first,
// n, rows) names some. `work`: attend_work(shape) floats.
template <class T, class Rows, class Fill>
HWY_INLINE void attend_chunk(const AttendShape& shape, const T* query, std::size_t first,
                             const Rows& rows_of, const Fill& fill, float* work, float* left) {
  const std::size_t group = shape.group, heads = shape.kv_heads;
  const std::size_t head_dim = shape.head_dim, width = shape.width();
  float* logits = work;
  float* keep = logits + group * kAttendTile;
  float* scaled = keep + group;
  auto* whole = reinterpret_cast<T*>(scaled + heads * group * width);
  for (std::size_t h = 0; h < heads * group; ++h) {
    to_two_floats(query + h * head_dim, head_dim, scaled + h * width);
  }
  for (std::size_t i = 0; i < heads * group * width; ++i) scaled[i] *= shape.scale;
  for (std::size_t h = 0; h < heads; ++h) {
    float* of = left + h * chunk_floats(shape);
    std::fill_n(of, group, -std::numeric_limits<float>::infinity());
    std::fill_n(of + group, group * (width + 1), 0.0f);
  }
  // Item i is tile i / heads of head i % heads; those ahead are on their way into a cache.
  const std::size_t items = kAttendChunk / kAttendTile * heads;
  const T* ring[kAttendAhead + 1][kAttendTile] = {};
  std::size_t counts[kAttendAhead + 1];
  const auto name = [&](std::size_t item) {
    const std::size_t head = item % heads, at = first + item / heads * kAttendTile;
    const std::size_t rows = item < items ? rows_of(head) : 0;
    const std::size_t n = at < rows ? std::min(kAttendTile, rows - at) : 0;
    const std::size_t slot = item % (kAttendAhead + 1);
    counts[slot] = n;
    if (n == 0) return;
    fill(head, at, n, ring[slot]);
    // Kernels read whole pairs of vectors.
    for (std::size_t t = 0; width != head_dim && t < n; ++t) {
      T* row = whole + (slot * kAttendTile + t) * 2 * width;
      for (std::size_t half = 0; half < 2; ++half) {
        std::copy_n(ring[slot][t] + half * head_dim, head_dim, row + half * width);
        std::fill_n(row + half * width + head_dim, width - head_dim, T());
      }
      ring[slot][t] = row;
    }
    for (std::size_t t = n; t < kAttendTile; ++t) ring[slot][t] = ring[slot][n - 1];
  };
  for (std::size_t item = 0; item < kAttendAhead; ++item) name(item);
  for (std::size_t item = 0; item < items; ++item) {
    name(item + kAttendAhead);
    const std::size_t slot = item % (kAttendAhead + 1), head = item % heads;
    if (counts[slot] == 0) continue;
    const std::size_t next = (item + kAttendAhead) % (kAttendAhead + 1);
    Ahead ahead(reinterpret_cast<const void* const*>(ring[next]), counts[next],
                2 * width * sizeof(T));
    attend_tile(shape, ring[slot], ahead, counts[slot], scaled + head * group * width, logits, keep,
                left + head * chunk_floats(shape));
  }
}

// The chunks of one kv head put together. No chunks: 0.
template <class T>
HWY_INLINE void merge_chunks(const AttendShape& shape, const float* left, std::size_t step,
                             std::size_t chunks, float* work, T* out) {
  const std::size_t group = shape.group, width = shape.width();
  const float lowest = -std::numeric_limits<float>::infinity();
  for (std::size_t h = 0; h < group; ++h) {
    float top = lowest, sum = 0;
    for (std::size_t c = 0; c < chunks; ++c) top = std::max(top, left[c * step + h]);
    const float base = top == lowest ? 0 : top;
    std::fill_n(work, width, 0.0f);
    for (std::size_t c = 0; c < chunks; ++c) {
      const float* chunk = left + c * step;
      const float weight = chunk[h] == lowest ? 0 : std::exp(chunk[h] - base);
      sum += weight * chunk[group + h];
      const float* values = chunk + 2 * group + h * width;
      for (std::size_t i = 0; i < width; ++i) work[i] += weight * values[i];
    }
    if (chunks > 0) {
      for (std::size_t i = 0; i < width; ++i) work[i] /= sum;
    }
    from_two_floats(work, shape.head_dim, out + h * shape.head_dim);
  }
}

// rows_of(sequence, kv head) counts rows; fill(sequence, kv head, first, n, rows) names some.
template <class T, class Rows, class Fill>
void attend_all(const AttendShape& shape, const T* query, T* out, std::size_t most_rows,
                const Rows& rows_of, const Fill& fill, Cpu& cpu) {
  const std::size_t heads = shape.kv_heads, group_floats = shape.group * shape.head_dim;
  const std::size_t chunks = (most_rows + kAttendChunk - 1) / kAttendChunk;
  const std::size_t step = heads * chunk_floats(shape);
  const std::size_t work_step = (attend_work(shape) + 15) / 16 * 16;
  const std::size_t works = static_cast<std::size_t>(cpu.threads()) * work_step;
  auto* memory =
      static_cast<float*>(cpu.scratch((works + shape.sequences * chunks * step) * sizeof(float)));
  float* left = memory + works;
  const auto mine = [&](int worker) {
    return memory + static_cast<std::size_t>(worker) * work_step;
  };
  cpu.parallel_for(shape.sequences * chunks, [&](std::size_t task, int worker) {
    const std::size_t sequence = task / chunks;
    attend_chunk<T>(
        shape, query + sequence * heads * group_floats, task % chunks * kAttendChunk,
        [&](std::size_t head) { return rows_of(sequence, head); },
        [&](std::size_t head, std::size_t first, std::size_t n, const T** to) {
          fill(sequence, head, first, n, to);
        },
        mine(worker), left + task * step);
  });
  cpu.parallel_for(shape.sequences * heads, [&](std::size_t pair, int worker) {
    const std::size_t sequence = pair / heads, head = pair % heads;
    const std::size_t count = (rows_of(sequence, head) + kAttendChunk - 1) / kAttendChunk;
    merge_chunks(shape, left + sequence * chunks * step + head * chunk_floats(shape), step, count,
                 mine(worker), out + pair * group_floats);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
