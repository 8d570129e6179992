// Version 1. Append: a task quantises one partition of one head from the rows where they are.
// Attention: a task takes kSplit tokens of one sequence and some kv heads, which lie in the order
// in which it reads them; up to four query heads share one unpacking of a square of codes. Each
// task leaves maximum, sum and weighted values of a softmax that is not yet divided (Milakov &
// Gimelshein, arXiv 1805.02867); a second pass merges them. Splits do not depend on the number of
// threads, so that results do not either.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hack/cpu.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/argument.h"
#include "kernels/common/simd-inl.h"

// Highway 1.0 takes AVX3_DL only where AVX-512 VNNI is, but compiles it with AVX-VNNI instead.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR                                                       \
  HWY_TARGET_STR_AVX3                                                        \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg," \
  "avx512vpopcntdq"
#endif

#include "kernels/hack/append-inl.h"
#include "kernels/hack/dequantise-inl.h"
#include "kernels/hack/kernel.h"
#include "kernels/hack/layout.h"
#include "kernels/hack/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kSplit = 1024;    // tokens of a task
inline constexpr std::size_t kExactTile = 32;  // 16-bit tokens whose logits are computed together

HWY_INLINE std::size_t to_size(int n) { return static_cast<std::size_t>(n); }

// ------------------------------------------------------------------------------------- append

template <class T>
void append_tokens(const HackAppend& args, Cpu& cpu) {
  const HackLayout layout(args.shape);
  const std::size_t n = layout.partition, dim = layout.head_dim, heads = layout.kv_heads;
  const std::size_t bytes = hack_sequence_bytes(args.shape);
  std::size_t source = 0;  // rows of the sequences before
  for (std::size_t s = 0; s < to_size(args.sequences); ++s) {
    auto* store = static_cast<std::byte*>(args.store) + s * bytes;
    const std::size_t first = to_size(args.first[s]), last = first + to_size(args.tokens[s]);
    const std::size_t done = to_size(hack_quantised_tokens(args.shape, args.first[s])) / n;
    const std::size_t parts =
        to_size(hack_quantised_tokens(args.shape, static_cast<int>(last))) / n;
    const auto row_of = [&](const void* rows, std::size_t token, std::size_t head) {
      return static_cast<const T*>(rows) + ((source + token - first) * heads + head) * dim;
    };
    cpu.parallel_for((parts - done) * heads, [&](std::size_t task, int) HWY_ATTR {
      const std::size_t part = done + task / heads, head = task % heads;
      std::byte* to = store + layout.quantised(part, head);
      const std::byte* exact = store + layout.exact(head);
      const T* keys[kHackMost];
      const T* values[kHackMost];
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t token = layout.sinks + part * n + i;
        keys[i] = token < first ? reinterpret_cast<const T*>(exact + layout.open_keys) + i * dim
                                : row_of(args.keys, token, head);
        values[i] = token < first ? reinterpret_cast<const T*>(exact + layout.open_values) + i * dim
                                  : row_of(args.values, token, head);
      }
      quantise_keys(layout, keys, to);
      quantise_values(layout, values, to + layout.values);
    });
    const auto copy = [&](std::size_t token, std::size_t slot, std::size_t to_keys,
                          std::size_t to_values) {
      for (std::size_t head = 0; head < heads; ++head) {
        std::byte* exact = store + layout.exact(head);
        std::memcpy(exact + to_keys + slot * dim * 2, row_of(args.keys, token, head), dim * 2);
        std::memcpy(exact + to_values + slot * dim * 2, row_of(args.values, token, head), dim * 2);
      }
    };
    for (std::size_t t = first; t < std::min(last, layout.sinks); ++t) {
      copy(t, t, 0, layout.sink_values);
    }
    const std::size_t open = layout.sinks + parts * n;
    for (std::size_t t = std::max(first, open); t < last; ++t) {
      copy(t, t - open, layout.open_keys, layout.open_values);
    }
    source += last - first;
  }
}

// ---------------------------------------------------------------------------------- attention

// What a task leaves of `Heads` query heads, one after the other.
struct Left {
  float* top;
  float* sum;
  float* values;  // [head][head_dim]
};

// Weights of `n` logits of each head (stride `stride`) against its running maximum; keep[h] scales
// what has been added up before.
template <std::size_t Heads>
HWY_INLINE void weigh_tile(float* logits, std::size_t stride, std::size_t n, const Left& left,
                           float* keep) {
  const Floats d;
  const Four four;
  FloatVec tops[Heads], sums[Heads], all[Heads];
  for (std::size_t h = 0; h < Heads; ++h) {
    tops[h] = hn::LoadU(d, logits + h * stride);
    all[h] = sums[h] = hn::Zero(d);
    for (std::size_t i = kHackLanes; i < n; i += kHackLanes) {
      tops[h] = hn::Max(tops[h], hn::LoadU(d, logits + h * stride + i));
    }
  }
  HWY_ALIGN float before[4] = {}, most[4];
  std::copy_n(left.top, Heads, before);
  const auto top = hn::Max(combine_lanes(tops, TakeMax()), hn::Load(four, before));
  hn::Store(top, four, most);
  for (std::size_t h = 0; h < Heads; ++h) {
    for (std::size_t i = 0; i < n; i += kHackLanes) {
      const auto logit = hn::LoadU(d, logits + h * stride + i);
      const auto weight = hn::Exp(d, hn::Sub(logit, hn::Set(d, most[h])));
      hn::StoreU(weight, d, logits + h * stride + i);
      sums[h] = hn::Add(sums[h], weight);
      all[h] = hn::Add(all[h], logit);
    }
  }
  hn::Store(hn::Exp(four, hn::Sub(hn::Load(four, before), top)), four, keep);
  // Highway's Exp makes 0 of NaN, and a maximum may lose one: 0 * sum of the logits does not.
  HWY_ALIGN float more[4];
  hn::Store(
      hn::MulAdd(combine_lanes(all, TakeSum()), hn::Zero(four), combine_lanes(sums, TakeSum())),
      four, more);
  for (std::size_t h = 0; h < Heads; ++h) {
    left.sum[h] = left.sum[h] * keep[h] + more[h];
    left.top[h] = most[h];
  }
}

// Asks for the bytes that are needed next, while this part is computed.
HWY_INLINE void ask_for(const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kHackUnit) hwy::Prefetch(from + i);
}

// integer_product or dequantised_product of one number of bits and heads.
using ProductOfHeads = void (*)(const Square&, const float* x, std::size_t x_stride,
                                const float* keep, float* out, std::size_t stride);
template <std::size_t Heads>
ProductOfHeads integer_of(std::size_t bits) {
  return bits == 2   ? integer_product<2, Heads>
         : bits == 4 ? integer_product<4, Heads>
                     : integer_product<8, Heads>;
}
template <std::size_t Heads>
ProductOfHeads dequantised_of(std::size_t bits) {
  return bits == 2   ? dequantised_product<2, Heads>
         : bits == 4 ? dequantised_product<4, Heads>
                     : dequantised_product<8, Heads>;
}

// The quantised partition at `at`.
template <std::size_t Heads>
HWY_NOINLINE void add_part(const HackLayout& layout, ProductOfHeads product, const std::byte* at,
                           const std::byte* next, const float* query, const Left& left) {
  const std::size_t n = layout.partition, dim = layout.head_dim;
  const std::size_t ahead = layout.quantised_head / (2 * layout.groups);
  HWY_ALIGN float logits[Heads][kHackMost];
  std::memset(logits, 0, sizeof logits);
  HWY_ALIGN float keep[4] = {1, 1, 1, 1};
  const auto square = [&](std::size_t group, std::size_t half) {
    const std::byte* from = at + half;
    return Square{reinterpret_cast<const std::uint8_t*>(from + group * layout.square),
                  reinterpret_cast<Bf16Pointer>(from + layout.mins) + group * n,
                  reinterpret_cast<Bf16Pointer>(from + layout.scales) + group * n,
                  from + layout.sums + group * n * layout.sum_bytes,
                  n,
                  layout.tile_bytes(),
                  layout.sum_bytes};
  };
  for (std::size_t group = 0; group < layout.groups; ++group) {
    ask_for(next + group * ahead, ahead);
    product(square(group, 0), query + group * n, dim, keep, logits[0], kHackMost);
  }
  weigh_tile<Heads>(logits[0], kHackMost, n, left, keep);
  for (std::size_t group = 0; group < layout.groups; ++group) {
    ask_for(next + (layout.groups + group) * ahead, ahead);
    product(square(group, layout.values), logits[0], kHackMost, keep, left.values + group * n, dim);
  }
}

// `tokens` tokens in 16 bit, rows one after the other.
template <std::size_t Heads, class T>
HWY_NOINLINE void add_exact(const T* keys, const T* values, std::size_t tokens, std::size_t dim,
                            const float* query, const Left& left) {
  const Floats d;
  for (std::size_t first = 0; first < tokens; first += kExactTile) {
    const std::size_t n = std::min(kExactTile, tokens - first);
    HWY_ALIGN float logits[Heads][kExactTile];
    HWY_ALIGN float keep[4];
    const std::size_t whole = (n + kHackLanes - 1) / kHackLanes * kHackLanes;
    for (std::size_t t = 0; t < n; t += 4) {
      const T* rows[4];
      for (std::size_t i = 0; i < 4; ++i) rows[i] = keys + (first + std::min(t + i, n - 1)) * dim;
      FloatVec sums[Heads][4];
      for (auto& of_head : sums) std::fill_n(of_head, 4, hn::Zero(d));
      for (std::size_t c = 0; c < dim; c += kHackLanes) {
        FloatVec key[4];
        for (std::size_t i = 0; i < 4; ++i) key[i] = load_floats(d, rows[i] + c);
        for (std::size_t h = 0; h < Heads; ++h) {
          const auto q = hn::LoadU(d, query + h * dim + c);
          for (std::size_t i = 0; i < 4; ++i) sums[h][i] = hn::MulAdd(q, key[i], sums[h][i]);
        }
      }
      for (std::size_t h = 0; h < Heads; ++h) {
        hn::Store(combine_lanes(sums[h], TakeSum()), Four(), logits[h] + t);
      }
    }
    // Beyond the last: far below the largest, so without weight, and finite where that is.
    for (auto& of_head : logits) {
      const float top = *std::max_element(of_head, of_head + n);
      std::fill(of_head + n, of_head + whole, top - std::max(200.0f, std::fabs(top)));
    }
    weigh_tile<Heads>(logits[0], kExactTile, whole, left, keep);
    for (std::size_t c = 0; c < dim; c += kHackLanes) {
      FloatVec sums[Heads];
      for (std::size_t h = 0; h < Heads; ++h) {
        sums[h] = hn::Mul(hn::LoadU(d, left.values + h * dim + c), hn::Set(d, keep[h]));
      }
      for (std::size_t t = 0; t < n; ++t) {
        const auto value = load_floats(d, values + (first + t) * dim + c);
        for (std::size_t h = 0; h < Heads; ++h) {
          sums[h] = hn::MulAdd(hn::Set(d, logits[h][t]), value, sums[h]);
        }
      }
      for (std::size_t h = 0; h < Heads; ++h) {
        hn::StoreU(sums[h], d, left.values + h * dim + c);
      }
    }
  }
}

template <class T>
class Attention {
 public:
  Attention(const HackAttention& args, bool integer, Cpu& cpu)
      : args_(args),
        integer_(integer),
        cpu_(cpu),
        layout_(args.shape),
        query_heads_(to_size(args.query_heads)),
        group_(query_heads_ / layout_.kv_heads),
        sequence_bytes_(hack_sequence_bytes(args.shape)),
        split_parts_(kSplit / layout_.partition) {
    std::size_t most = 0;
    for (std::size_t s = 0; s < to_size(args.sequences); ++s) most = std::max(most, splits(s));
    splits_ = most;
    // Where a whole row of heads would leave threads without work, a task takes one head.
    const std::size_t rows = to_size(args.sequences) * splits_;
    task_heads_ = rows >= 4 * to_size(cpu.threads()) ? layout_.kv_heads : 1;
    left_floats_ = 2 + layout_.head_dim;
    const std::size_t left = rows * query_heads_ * left_floats_;
    const std::size_t work = to_size(cpu.threads()) * query_heads_ * layout_.head_dim;
    left_ = static_cast<float*>(cpu.scratch((left + work) * sizeof(float)));
    work_ = left_ + left;
  }

  void run() {
    const std::size_t blocks = layout_.kv_heads / task_heads_;
    cpu_.parallel_for(to_size(args_.sequences) * splits_ * blocks,
                      [&](std::size_t task, int worker) HWY_ATTR {
                        const std::size_t row = task / blocks;
                        const std::size_t s = row / splits_, split = row % splits_;
                        if (split >= splits(s)) return;
                        attend(s, split, task % blocks * task_heads_, to_size(worker));
                      });
    cpu_.parallel_for(
        to_size(args_.sequences) * query_heads_,
        [&](std::size_t row, int) HWY_ATTR { merge(row / query_heads_, row % query_heads_); }, 8);
  }

 private:
  std::size_t parts(std::size_t s) const {
    return to_size(hack_quantised_tokens(args_.shape, args_.kv_tokens[s])) / layout_.partition;
  }
  // At least one, which takes the 16-bit tokens.
  std::size_t splits(std::size_t s) const {
    return std::max<std::size_t>(1, (parts(s) + split_parts_ - 1) / split_parts_);
  }
  float* left(std::size_t s, std::size_t split, std::size_t query_head) const {
    return left_ + ((s * splits_ + split) * query_heads_ + query_head) * left_floats_;
  }
  // The heads of a block lie together: tops, sums, values.
  Left left(std::size_t s, std::size_t split, std::size_t query_head, std::size_t heads) const {
    float* at = left(s, split, query_head);
    return {at, at + heads, at + 2 * heads};
  }
  // Query heads of the block that begins at `h` of a group: 1 to 4.
  std::size_t block(std::size_t h) const { return std::min<std::size_t>(4, group_ - h); }

  HWY_NOINLINE void attend(std::size_t s, std::size_t split, std::size_t first_head,
                           std::size_t worker) const {
    const auto* store = static_cast<const std::byte*>(args_.store) + s * sequence_bytes_;
    const std::size_t dim = layout_.head_dim, first = split * split_parts_;
    const std::size_t last = std::min(parts(s), first + split_parts_);
    const std::size_t end_head = first_head + task_heads_;
    float* query = work_ + worker * query_heads_ * dim;
    to_floats(static_cast<const T*>(args_.query) + (s * query_heads_ + first_head * group_) * dim,
              task_heads_ * group_ * dim, query);
    for (std::size_t i = 0; i < task_heads_ * group_ * dim; ++i) query[i] *= args_.scale;
    // body(head, query, what is left, heads as a constant) for each block of query heads.
    const auto blocks = [&](std::size_t head, const auto& body) HWY_ATTR {
      over_heads(group_, [&](std::size_t h, auto heads) HWY_ATTR {
        const float* from = query + ((head - first_head) * group_ + h) * dim;
        body(from, left(s, split, head * group_ + h, heads), heads);
      });
    };
    for (std::size_t head = first_head; head < end_head; ++head) {
      blocks(head, [&](const float* from, const Left& to, auto count) HWY_ATTR {
        std::fill_n(to.top, count, -std::numeric_limits<float>::infinity());
        std::fill_n(to.sum, count, 0.0f);
        std::fill_n(to.values, count * dim, 0.0f);
        if (split == 0) add_sinks_and_open<count>(store, s, head, from, to);
      });
    }
    for (std::size_t part = first; part < last; ++part) {
      for (std::size_t head = first_head; head < end_head; ++head) {
        const std::byte* at = store + layout_.quantised(part, head);
        const bool more = head + 1 < end_head || part + 1 < last;
        const std::byte* next = !more ? at
                                : head + 1 < end_head
                                    ? store + layout_.quantised(part, head + 1)
                                    : store + layout_.quantised(part + 1, first_head);
        blocks(head, [&](const float* from, const Left& to, auto count) HWY_ATTR {
          const ProductOfHeads product =
              integer_ ? integer_of<count>(layout_.bits) : dequantised_of<count>(layout_.bits);
          add_part<count>(layout_, product, at, next, from, to);
        });
      }
    }
  }

  template <std::size_t Heads>
  HWY_INLINE void add_sinks_and_open(const std::byte* store, std::size_t s, std::size_t head,
                                     const float* query, const Left& to) const {
    const std::size_t tokens = to_size(args_.kv_tokens[s]);
    const std::size_t sinks = std::min(tokens, layout_.sinks);
    const std::size_t open = tokens - sinks - parts(s) * layout_.partition;
    const std::byte* exact = store + layout_.exact(head);
    const auto rows = [&](std::size_t offset) {
      return reinterpret_cast<const T*>(exact + offset);
    };
    add_exact<Heads>(rows(0), rows(layout_.sink_values), sinks, layout_.head_dim, query, to);
    add_exact<Heads>(rows(layout_.open_keys), rows(layout_.open_values), open, layout_.head_dim,
                     query, to);
  }

  HWY_NOINLINE void merge(std::size_t s, std::size_t query_head) const {
    const Floats d;
    const std::size_t dim = layout_.head_dim;
    T* out = static_cast<T*>(args_.out) + (s * query_heads_ + query_head) * dim;
    const std::size_t in_group = query_head % group_;
    std::size_t h = 0;
    while (h + block(h) <= in_group) h += block(h);
    const std::size_t at = in_group - h;
    const auto of = [&](std::size_t split) { return left(s, split, query_head - at, block(h)); };
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::size_t i = 0; i < splits(s); ++i) top = std::max(top, of(i).top[at]);
    HWY_ALIGN float values[kMostChannels] = {};
    for (std::size_t i = 0; i < splits(s) && args_.kv_tokens[s] > 0; ++i) {
      const Left from = of(i);
      const float weight = std::exp(from.top[at] - top);
      sum += from.sum[at] * weight;
      for (std::size_t c = 0; c < dim; c += kHackLanes) {
        const auto more = hn::LoadU(d, from.values + at * dim + c);
        hn::Store(hn::MulAdd(more, hn::Set(d, weight), hn::Load(d, values + c)), d, values + c);
      }
    }
    const float inverse = args_.kv_tokens[s] > 0 ? 1 / sum : 0;
    for (std::size_t c = 0; c < dim; c += kHackLanes) {
      store_floats(d, hn::Mul(hn::Load(d, values + c), hn::Set(d, inverse)), out + c);
    }
  }

  const HackAttention& args_;
  bool integer_;
  Cpu& cpu_;
  HackLayout layout_;
  std::size_t query_heads_, group_, sequence_bytes_, split_parts_;
  std::size_t splits_ = 1, task_heads_ = 1, left_floats_ = 0;
  float* left_ = nullptr;
  float* work_ = nullptr;
};

void run_append(const HackAppend& args, Cpu& cpu) {
  args.shape.format == Format::bf16 ? append_tokens<Bf16>(args, cpu)
                                    : append_tokens<Fp16>(args, cpu);
}
void run_attention(const HackAttention& args, bool integer, Cpu& cpu) {
  args.shape.format == Format::bf16 ? Attention<Bf16>(args, integer, cpu).run()
                                    : Attention<Fp16>(args, integer, cpu).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {
HWY_EXPORT(run_append);
HWY_EXPORT(run_attention);

namespace cpu {

void hack_append(const HackAppend& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run_append)(args, cpu);
}

void hack_attention(const HackAttention& args, Cpu& cpu) {
  require(problem(args));
  if (args.sequences > 0) HWY_DYNAMIC_DISPATCH(run_attention)(args, true, cpu);
}

void hack_dequantise_attention(const HackAttention& args, Cpu& cpu) {
  require(problem(args));
  if (args.sequences > 0) HWY_DYNAMIC_DISPATCH(run_attention)(args, false, cpu);
}

}  // namespace cpu
}  // namespace kvlane::kernels
#endif
