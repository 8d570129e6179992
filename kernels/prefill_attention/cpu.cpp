// Version 1: a task is 64 (token, query head) pairs of a kv head, one a lane. Queries and outputs
// are kept with the lanes innermost, so that logits, softmax and values are all vertical: no sums
// across lanes, no transposed keys. A tile of 64 keys is turned into fp32 once for all 64 lanes;
// then two products of 64 x 64 x head_dim with 4 x 4 vectors of AVX-512 in registers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/prefill_attention/cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/argument.h"
#include "kernels/common/simd-inl.h"
#include "kernels/prefill_attention/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t kLanes = 64;  // (token, query head) pairs of a task
constexpr std::size_t kKeys = 64;   // of a tile
// Vectors of lanes that a product holds in registers, four rows of each.
constexpr std::size_t kVectors = hn::MaxLanes(Floats()) >= 16 ? 4 : 2;

// The memory of a worker, in floats.
struct Work {
  float *queries, *outputs;  // [head_dim][kLanes]
  float *keys, *values;      // [kKeys][head_dim]
  float* weights;            // [kKeys][kLanes]
  float *top, *sum, *keep;   // [kLanes]
  std::int32_t* position;    // [kLanes]

  static std::size_t floats(std::size_t head_dim) {
    return 2 * head_dim * kLanes + 2 * kKeys * head_dim + kKeys * kLanes + 4 * kLanes;
  }
  Work(float* memory, std::size_t head_dim)
      : queries(memory),
        outputs(queries + head_dim * kLanes),
        keys(outputs + head_dim * kLanes),
        values(keys + kKeys * head_dim),
        weights(values + kKeys * head_dim),
        top(weights + kKeys * kLanes),
        sum(top + kLanes),
        keep(sum + kLanes),
        position(reinterpret_cast<std::int32_t*>(keep + kLanes)) {}
};

// to[r][lane] = start[r][lane] * keep[lane] + sum over i < inner of left[i * left_i + r * left_r] *
// right[i][lane], four rows r. `keep` null: starts at 0.
HWY_INLINE void four_rows(const float* left, std::size_t left_r, std::size_t left_i,
                          const float* right, std::size_t inner, const float* keep, float* to) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t lane = 0; lane < kLanes; lane += kVectors * lanes) {
    FloatVec sum[4][kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      for (std::size_t r = 0; r < 4; ++r) {
        sum[r][v] = keep == nullptr ? hn::Zero(d)
                                    : hn::Mul(hn::LoadU(d, to + r * kLanes + lane + v * lanes),
                                              hn::LoadU(d, keep + lane + v * lanes));
      }
    }
    for (std::size_t i = 0; i < inner; ++i) {
      const float* factors = left + i * left_i;
      const float* row = right + i * kLanes + lane;
      FloatVec vector[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) vector[v] = hn::LoadU(d, row + v * lanes);
      for (std::size_t r = 0; r < 4; ++r) {
        const auto factor = hn::Set(d, factors[r * left_r]);
        for (std::size_t v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::MulAdd(factor, vector[v], sum[r][v]);
        }
      }
    }
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        hn::StoreU(sum[r][v], d, to + r * kLanes + lane + v * lanes);
      }
    }
  }
}

// Which lanes see a key: causal, and the last `window` keys.
template <class DI>
HWY_INLINE hn::Mask<DI> sees_key(DI di, hn::Vec<DI> position, std::int32_t key, int window) {
  const auto at = hn::Set(di, key);
  auto sees = hn::Gt(hn::Add(position, hn::Set(di, 1)), at);  // no Le of integers
  if (window > 0) sees = hn::And(sees, hn::Gt(at, hn::Sub(position, hn::Set(di, window))));
  return sees;
}

// Logits of a tile into weights of a softmax that is not yet divided; updates top, sum and keep.
HWY_INLINE void weigh_tile(const PrefillAttention& args, std::int32_t first_key, std::size_t n,
                           bool masked, const Work& work) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::size_t lane = 0; lane < kLanes; lane += lanes) {
    const auto position = hn::LoadU(di, work.position + lane);
    float* column = work.weights + lane;
    auto largest = lowest;
    for (std::size_t key = 0; key < n; ++key) {
      auto logit = hn::LoadU(d, column + key * kLanes);
      if (args.soft_cap > 0) logit = soft_capped(d, logit, args.soft_cap);
      if (masked) {
        const auto sees =
            sees_key(di, position, first_key + static_cast<std::int32_t>(key), args.window);
        logit = hn::IfThenElse(hn::RebindMask(d, sees), logit, lowest);
      }
      if (masked || args.soft_cap > 0) hn::StoreU(logit, d, column + key * kLanes);
      largest = hn::Max(largest, logit);
    }
    const auto before = hn::LoadU(d, work.top + lane);
    const auto after = hn::Max(before, largest);
    // Where every logit so far is -infinity, 0 stands for the maximum: all weights are 0.
    const auto base = hn::IfThenZeroElse(hn::Eq(after, lowest), after);
    const auto keep =
        hn::IfThenZeroElse(hn::Eq(before, lowest), exp_or_nan(d, hn::Sub(before, base)));
    auto sum = hn::Mul(hn::LoadU(d, work.sum + lane), keep);
    for (std::size_t key = 0; key < n; ++key) {
      const auto weight = exp_or_nan(d, hn::Sub(hn::LoadU(d, column + key * kLanes), base));
      hn::StoreU(weight, d, column + key * kLanes);
      sum = hn::Add(sum, weight);
    }
    hn::StoreU(after, d, work.top + lane);
    hn::StoreU(keep, d, work.keep + lane);
    hn::StoreU(sum, d, work.sum + lane);
  }
}

// Weighted values where some are not finite and some lanes do not see them: 0 * infinity must not
// reach those.
HWY_INLINE void add_seen_values(const PrefillAttention& args, std::int32_t first_key, std::size_t n,
                                std::size_t head_dim, const Work& work) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t lane = 0; lane < kLanes; lane += lanes) {
    const auto position = hn::LoadU(di, work.position + lane);
    for (std::size_t i = 0; i < head_dim; ++i) {
      float* at = work.outputs + i * kLanes + lane;
      auto sum = hn::Mul(hn::LoadU(d, at), hn::LoadU(d, work.keep + lane));
      for (std::size_t key = 0; key < n; ++key) {
        const auto sees =
            sees_key(di, position, first_key + static_cast<std::int32_t>(key), args.window);
        const auto more = hn::MulAdd(hn::LoadU(d, work.weights + key * kLanes + lane),
                                     hn::Set(d, work.values[key * head_dim + i]), sum);
        sum = hn::IfThenElse(hn::RebindMask(d, sees), more, sum);
      }
      hn::StoreU(sum, d, at);
    }
  }
}

HWY_INLINE bool all_finite(const float* values, std::size_t n) {
  const Floats d;
  auto sum = hn::Zero(d);  // stays 0 while all are finite: x - x is NaN where x is not
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, values + i);
    sum = hn::Add(sum, hn::Sub(x, x));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum)) == 0;
}

// Pairs [first, first + n) of a sequence and kv head; pair = token * group + head of the group.
template <class T>
HWY_INLINE void attend_block(const PrefillAttention& args, std::size_t sequence,
                             std::size_t kv_head, std::size_t token_base, std::size_t first,
                             std::size_t n, const Work& work) {
  const KvCache& kv = args.kv;
  const auto head_dim = static_cast<std::size_t>(kv.head_dim);
  const auto query_heads = static_cast<std::size_t>(args.query_heads);
  const std::size_t group = query_heads / static_cast<std::size_t>(kv.kv_heads);
  const int cached = args.kv_tokens[sequence] - args.new_tokens[sequence];
  const auto element_of = [&](std::size_t pair) {
    return ((token_base + pair / group) * query_heads + kv_head * group + pair % group) * head_dim;
  };
  float* row = work.values;  // free until the first tile
  std::fill_n(work.queries, head_dim * kLanes, 0.0f);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t pair = first + std::min(lane, n - 1);  // lanes past the end repeat the last
    work.position[lane] = cached + static_cast<std::int32_t>(pair / group);
    if (lane >= n) continue;
    to_floats(static_cast<const T*>(args.query) + element_of(pair), head_dim, row);
    for (std::size_t i = 0; i < head_dim; ++i)
      work.queries[i * kLanes + lane] = row[i] * args.scale;
  }
  std::fill_n(work.outputs, head_dim * kLanes, 0.0f);
  std::fill_n(work.top, kLanes, -std::numeric_limits<float>::infinity());
  std::fill_n(work.sum, kLanes, 0.0f);

  const int lowest = work.position[0], highest = work.position[kLanes - 1];
  const int begin = args.window > 0 ? std::max(0, lowest + 1 - args.window) : 0;
  for (int key = begin; key <= highest; key += static_cast<int>(kKeys)) {
    const auto keys =
        static_cast<std::size_t>(std::min(static_cast<int>(kKeys), highest + 1 - key));
    for (std::size_t i = 0; i < keys; ++i) {
      const T* from =
          static_cast<const T*>(kv.rows) +
          kv.row(static_cast<int>(sequence), static_cast<int>(kv_head), key + static_cast<int>(i)) *
              kv.row_elements();
      to_floats(from, head_dim, work.keys + i * head_dim);
      to_floats(from + head_dim, head_dim, work.values + i * head_dim);
    }
    for (std::size_t i = keys; i % 4 != 0; ++i)
      std::fill_n(work.keys + i * head_dim, head_dim, 0.0f);
    for (std::size_t i = 0; i < keys; i += 4) {
      four_rows(work.keys + i * head_dim, head_dim, 1, work.queries, head_dim, nullptr,
                work.weights + i * kLanes);
    }
    const int last = key + static_cast<int>(keys) - 1;
    const bool masked = last > lowest || (args.window > 0 && key <= highest - args.window);
    weigh_tile(args, key, keys, masked, work);
    if (masked && !all_finite(work.values, keys * head_dim)) {
      add_seen_values(args, key, keys, head_dim, work);
      continue;
    }
    for (std::size_t i = 0; i < head_dim; i += 4) {
      four_rows(work.values + i, 1, head_dim, work.weights, keys, work.keep,
                work.outputs + i * kLanes);
    }
  }
  for (std::size_t lane = 0; lane < n; ++lane) {
    for (std::size_t i = 0; i < head_dim; ++i) {
      row[i] = work.outputs[i * kLanes + lane] / work.sum[lane];
    }
    from_floats(row, head_dim, static_cast<T*>(args.out) + element_of(first + lane));
  }
}

template <class T>
void prefill_in(const PrefillAttention& args, Cpu& cpu) {
  const auto kv_heads = static_cast<std::size_t>(args.kv.kv_heads);
  const std::size_t group = static_cast<std::size_t>(args.query_heads) / kv_heads;
  const auto head_dim = static_cast<std::size_t>(args.kv.head_dim);
  const auto blocks_of = [&](std::size_t sequence) {
    return (static_cast<std::size_t>(args.new_tokens[sequence]) * group + kLanes - 1) / kLanes;
  };
  std::size_t blocks = 0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(args.sequences); ++s) blocks += blocks_of(s);
  const std::size_t step = Work::floats(head_dim);
  auto* memory = static_cast<float*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * step * sizeof(float)));
  cpu.parallel_for(blocks * kv_heads, [&](std::size_t task, int worker) {
    // The last blocks of a prompt see the most keys: first, so that no thread ends late with one.
    std::size_t block = blocks - 1 - task / kv_heads, sequence = 0, token_base = 0;
    while (block >= blocks_of(sequence)) {
      block -= blocks_of(sequence);
      token_base += static_cast<std::size_t>(args.new_tokens[sequence++]);
    }
    const std::size_t pairs = static_cast<std::size_t>(args.new_tokens[sequence]) * group;
    attend_block<T>(args, sequence, task % kv_heads, token_base, block * kLanes,
                    std::min(kLanes, pairs - block * kLanes),
                    Work(memory + static_cast<std::size_t>(worker) * step, head_dim));
  });
}

void run(const PrefillAttention& args, Cpu& cpu) {
  with_elements(args.kv.format,
                [&](auto element) { prefill_in<typename decltype(element)::type>(args, cpu); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run);

void cpu::prefill_attention(const PrefillAttention& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
