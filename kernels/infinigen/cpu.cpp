// Version 1: kept channels as a product with the columns of the skew that are kept; scores of a
// (sequence, kv head) in two passes over its logits, which stay in a cache.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/infinigen/cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/argument.h"
#include "kernels/common/row_product-inl.h"
#include "kernels/infinigen/kernel.h"
#include "kernels/infinigen/take.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE std::size_t padded_to_columns(std::size_t n) {
  return (n + kProductColumns - 1) / kProductColumns * kProductColumns;
}

template <class T>
void project_in(const InfinigenProject& args, Cpu& cpu) {
  constexpr std::size_t kTask = 64;  // tokens
  const auto tokens = static_cast<std::size_t>(args.tokens);
  const auto heads = static_cast<std::size_t>(args.heads);
  const auto kv_heads = static_cast<std::size_t>(args.kv_heads);
  const auto width = static_cast<std::size_t>(args.head_dim);
  const auto kept = static_cast<std::size_t>(args.channels_kept);
  const std::size_t columns = padded_to_columns(kept), group = heads / kv_heads;
  const std::size_t tasks = (tokens + kTask - 1) / kTask;
  const std::size_t work = kProductRows * (width + columns);
  const std::size_t matrix_size = width * columns;
  auto* matrices = static_cast<float*>(cpu.scratch(
      (kv_heads * matrix_size + static_cast<std::size_t>(cpu.threads()) * work) * sizeof(float)));
  float* memory = matrices + kv_heads * matrix_size;
  for (std::size_t h = 0; h < kv_heads; ++h) {
    for (std::size_t i = 0; i < width; ++i) {
      float* row = matrices + h * matrix_size + i * columns;
      for (std::size_t c = 0; c < columns; ++c) {
        row[c] = c < kept ? args.skew[(h * width + i) * width +
                                      static_cast<std::size_t>(args.channels[h * kept + c])]
                          : 0;
      }
    }
  }
  const auto* x = static_cast<const T*>(args.x);
  auto* partial = static_cast<T*>(args.partial);
  cpu.parallel_for(heads * tasks, [&](std::size_t task, int worker) {
    const std::size_t h = task / tasks, first = task % tasks * kTask;
    const std::size_t last = std::min(tokens, first + kTask);
    float* vectors = memory + static_cast<std::size_t>(worker) * work;
    float* sums = vectors + kProductRows * width;
    for (std::size_t t = first; t < last; t += kProductRows) {
      const std::size_t rows = std::min(kProductRows, last - t);
      for (std::size_t r = 0; r < rows; ++r) {
        to_floats(x + ((t + r) * heads + h) * width, width, vectors + r * width);
      }
      row_product(rows, vectors, width, matrices + h / group * matrix_size, columns, sums);
      for (std::size_t r = 0; r < rows; ++r) {
        from_floats(sums + r * columns, kept, partial + ((t + r) * heads + h) * kept);
      }
    }
  });
}

void run_project(const InfinigenProject& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { project_in<typename decltype(element)::type>(args, cpu); });
}

// Logits of the queries of a group against one key after the other; a key's channels are few, so
// the tail of a vector that does not fit is done one by one.
template <class T>
HWY_INLINE void partial_logits(const float* queries, std::size_t group, std::size_t kept,
                               const T* keys, std::size_t n, float* logits, std::size_t step) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t whole = kept / lanes * lanes;
  for (std::size_t t = 0; t < n; ++t) {
    const T* key = keys + t * kept;
    __builtin_prefetch(key + 16 * kept);
    for (std::size_t g = 0; g < group; ++g) {
      const float* query = queries + g * kept;
      auto sum = hn::Zero(d);
      for (std::size_t i = 0; i < whole; i += lanes) {
        sum = hn::MulAdd(hn::LoadU(d, query + i), load_floats(d, key + i), sum);
      }
      float total = whole > 0 ? hn::GetLane(hn::SumOfLanes(d, sum)) : 0;
      for (std::size_t i = whole; i < kept; ++i) {
        const hn::CappedTag<float, 1> d1;
        total += query[i] * hn::GetLane(load_floats(d1, key + i));
      }
      logits[g * step + t] = total;
    }
  }
}

// Maximum, sum of the exponentials, and how many lie above maximum - alpha.
struct RowStatistics {
  float top, sum;
  std::int64_t wanted;
};
HWY_INLINE RowStatistics statistics_of(const float* logits, std::size_t n, float alpha) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const float lowest = -std::numeric_limits<float>::infinity();
  auto largest = hn::Set(d, lowest);
  for (std::size_t t = 0; t < n; t += lanes) {  // padded with -infinity
    largest = hn::Max(largest, hn::LoadU(d, logits + t));
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  auto sum = hn::Zero(d);
  std::int64_t wanted = 0;
  const auto least = hn::Set(d, top - alpha);
  for (std::size_t t = 0; t < n; t += lanes) {
    const auto x = hn::LoadU(d, logits + t);
    sum = hn::Add(sum, exp_or_nan(d, hn::Sub(x, hn::Set(d, top))));
    wanted += static_cast<std::int64_t>(hn::CountTrue(d, hn::Gt(x, least)));
  }
  return {top, hn::GetLane(hn::SumOfLanes(d, sum)), wanted};
}

template <class T>
void score_tokens(const InfinigenScore& args, Cpu& cpu) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const auto kv_heads = static_cast<std::size_t>(args.kv_heads);
  const std::size_t group = static_cast<std::size_t>(args.query_heads) / kv_heads;
  const auto kept = static_cast<std::size_t>(args.channels_kept);
  const auto width = static_cast<std::size_t>(args.width);
  const std::size_t step = padded_to_columns(width),
                    pairs = static_cast<std::size_t>(args.sequences) * kv_heads;
  const std::size_t work = padded_to_columns(group * (step + kept));
  auto* memory = static_cast<float*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * work * sizeof(float) +
                  pairs * sizeof(std::int64_t)));
  auto* wanted =
      reinterpret_cast<std::int64_t*>(memory + static_cast<std::size_t>(cpu.threads()) * work);
  const auto* query = static_cast<const T*>(args.query);
  const auto* keys = static_cast<const T*>(args.keys);
  cpu.parallel_for(pairs, [&](std::size_t pair, int worker) {
    const auto n = static_cast<std::size_t>(args.kv_tokens[pair / kv_heads]);
    wanted[pair] = 0;
    if (n == 0) return;
    float* logits = memory + static_cast<std::size_t>(worker) * work;
    float* queries = logits + group * step;
    to_floats(query + pair * group * kept, group * kept, queries);
    for (std::size_t i = 0; i < group * kept; ++i) queries[i] *= args.scale;
    partial_logits(queries, group, kept, keys + pair * width * kept, n, logits, step);
    float* scores = args.scores + pair * width;
    for (std::size_t g = 0; g < group; ++g) {
      float* row = logits + g * step;
      std::fill(row + n, row + padded_to_columns(n), -std::numeric_limits<float>::infinity());
      const RowStatistics found = statistics_of(row, n, args.alpha);
      wanted[pair] += found.wanted;
      const auto top = hn::Set(d, found.top), share = hn::Set(d, 1 / found.sum);
      for (std::size_t t = 0; t < n; t += lanes) {
        const auto weight = hn::Mul(exp_or_nan(d, hn::Sub(hn::LoadU(d, row + t), top)), share);
        if (t + lanes <= n) {
          hn::StoreU(g == 0 ? weight : hn::Add(hn::LoadU(d, scores + t), weight), d, scores + t);
        } else {
          hn::StoreU(weight, d, row + t);
          for (std::size_t i = t; i < n; ++i) scores[i] = g == 0 ? row[i] : scores[i] + row[i];
        }
      }
    }
  });
  std::int64_t total = 0;
  for (std::size_t pair = 0; pair < pairs; ++pair) total += wanted[pair];
  *args.take = rows_to_take(args, total);
}

void run_score(const InfinigenScore& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { score_tokens<typename decltype(element)::type>(args, cpu); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run_project);
HWY_EXPORT(run_score);

void cpu::infinigen_project(const InfinigenProject& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run_project)(args, cpu);
}

void cpu::infinigen_score(const InfinigenScore& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run_score)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
