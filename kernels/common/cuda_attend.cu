// One query a sequence over a paged KV cache: decode and sparse attention.
//
// Versions
//   1. a warp a query head: K and V are read once a query head, so a group of 8 reads them 8 times.
//   2. a block a kv head and all its query heads (4 or 8 at a time): K and V are read once.
//   3. (here) the sequence is split over blocks (flash-decoding), partial results (running maximum,
//      sum, weighted V) are merged by a second kernel, since a batch of 4 with 8 kv heads is 32
//      blocks on a GPU of 132 multiprocessors; a group of lanes takes several tokens at once, so
//      that many 16-byte loads are in flight and the softmax is rescaled once for all of them.
//   Next would be tensor cores for groups of 8 and more (n = 8 of m16n8k16 is the heads): only
//   where shuffles and FMAs bind, and they take about 70 % of the time that memory takes on an
//   H100.
//
// A row (K and V of a token) is 2 d elements in one piece: d 128 in bf16 is 512 bytes, of which 16
// lanes read 16 bytes each of K and of V. Rows that an index names are read the same way: 256 or
// 512 bytes a piece use whole sectors, so what is lost against neighbouring rows is DRAM pages
// only.
//
// Bytes: K and V once (4 d a token and kv head in 16 bits), 4 a block of the table; partial results
// 4 (d + 2) written and read a query head and split, at most 1/32 of K and V (256 tokens a split).
// In flight: 128 a thread; 384 (4 heads) or 256 (8 heads) threads an SM: 48 or 32 KiB, above the
// 18 KB that an H100 needs (3.35 TB/s x 700 ns / 132), 11 KB A100, 6 KB L20.
// Expected at 80 % of peak: 8 sequences x 8 kv heads x 32 K tokens, d 128, bf16: 1.07 GB; H100
// (3.35 TB/s) 0.40 ms, A100 80 GB (2.04 TB/s) 0.66 ms, L20 (864 GB/s) 1.55 ms. Not measured.

#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_attend.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_format.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
// Of a multiprocessor: 8 heads need 204 to 224 registers, 4 heads 110 to 167.
__host__ __device__ constexpr int blocks_an_sm(int heads) { return heads == 8 ? 2 : 3; }
constexpr int kTokensASplit = 256;  // at least
constexpr int kMaxSplits = 64;
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// How a row is laid over lanes.
template <Format kFormat, int kDim>
struct Layout {
  static constexpr int kLoadsARow = kDim / kPerLoad<kFormat>;             // 16-byte loads of K
  static constexpr int kLanes = kLoadsARow < kWarp ? kLoadsARow : kWarp;  // that share a token
  static constexpr int kLoads = kLoadsARow / kLanes;                      // a lane, of K
  static constexpr int kElements = kLoads * kPerLoad<kFormat>;            // a lane
  static constexpr int kGroups = kWarp / kLanes;                          // tokens a warp at once
  static constexpr int kUnroll = 4 / kLoads;                              // times that
  static constexpr int kBatch = kGroups * kUnroll;                        // tokens a warp and step
  static constexpr int kStep = kBatch * kWarps;
};

struct Arguments {
  const void* query;
  DeviceKv kv;
  const std::int32_t* kv_tokens;
  const std::int32_t* index;
  const std::int32_t* index_count;
  int query_heads, group, chunks;  // heads of a kv head; blocks that share them
  int token_limit, window, index_width;
  bool indexed;
  float scale, soft_cap;
  void* out;
  int splits, tokens_a_split;
  float* partial;         // [sequences][query_heads][splits][head_dim]
  float2* partial_state;  // [sequences][query_heads][splits]: maximum and sum
};

// The tokens that a sequence and kv head attend to: `count` of them, the i-th is index[i] or
// first + i.
struct Tokens {
  const std::int32_t* index;
  int first, count, limit;
  __device__ __forceinline__ int at(int i) const {
    // A token that the sequence does not have must not leave the table.
    int token = first + i;
    if (index != nullptr) token = max(0, min(__ldg(index + i), limit - 1));
    return token;
  }
};

__device__ __forceinline__ Tokens tokens_of(const Arguments& a, int sequence, int kv_head) {
  const int n = max(0, min(a.kv_tokens[sequence], a.token_limit));
  if (!a.indexed) {
    const int first = a.window > 0 ? max(0, n - a.window) : 0;
    return Tokens{nullptr, first, n - first, n};
  }
  const std::size_t row =
      static_cast<std::size_t>(sequence) * static_cast<unsigned>(a.kv.kv_heads) +
      static_cast<unsigned>(kv_head);
  const int count =
      a.index_count == nullptr ? a.index_width : max(0, min(a.index_count[row], a.index_width));
  return Tokens{a.index + row * static_cast<unsigned>(a.index_width), 0, n == 0 ? 0 : count, n};
}

// Of the running softmax of one head, in powers of two.
struct State {
  float top, sum;
};
// The factor by which what was accumulated under `top` counts under `new_top` >= top.
__device__ __forceinline__ float rescale(float top, float new_top) {
  return top == minus_infinity() ? 0.0f : exp2_approx(top - new_top);
}

template <typename L, int kHeads>
struct Accumulator {
  State state[kHeads];
  float values[kHeads][L::kElements];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      state[h] = State{minus_infinity(), 0};
#pragma unroll
      for (int e = 0; e < L::kElements; ++e) values[h][e] = 0;
    }
  }
  // What another accumulator of the same elements holds for head h.
  template <typename Value>
  __device__ __forceinline__ void add(int h, State other, Value value) {
    const float top = fmaxf(state[h].top, other.top);
    const float own = rescale(state[h].top, top), theirs = rescale(other.top, top);
    state[h] = State{top, state[h].sum * own + other.sum * theirs};
#pragma unroll
    for (int e = 0; e < L::kElements; ++e) values[h][e] = values[h][e] * own + value(e) * theirs;
  }
};

// Blocks: x the split, y kv head and chunk of its query heads, z the sequence.
template <Format kFormat, int kDim, int kHeads>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(kHeads))
    attend_split(const __grid_constant__ Arguments a) {
  using L = Layout<kFormat, kDim>;
  constexpr int kPer = kPerLoad<kFormat>, kQuads = L::kElements / 4;
  // Four floats a lane beside the next lane's: reads of 16 bytes without bank conflicts.
  auto& query = shared<float4[kHeads][kQuads][L::kLanes], "attend query">();
  auto& merged = shared<float[kWarps / 2][kHeads][kDim], "attend merged">();
  auto& merged_state = shared<State[kWarps / 2][kHeads], "attend merged state">();

  const int split = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y) / a.chunks;
  const int first_of_group = static_cast<int>(blockIdx.y) % a.chunks * kHeads;
  const int first_head = kv_head * a.group + first_of_group;
  const int heads = min(kHeads, a.group - first_of_group);
  const int lane = lane_of_warp(), warp = warp_of_block();
  const int part = lane % L::kLanes, group = lane / L::kLanes;  // of the row; of the tokens

  const Tokens tokens = tokens_of(a, sequence, kv_head);
  const int begin = split * a.tokens_a_split, end = min(begin + a.tokens_a_split, tokens.count);
  if (begin >= end && split > 0) return;  // the merge knows

  // Element e of load j of lane p is j * kLanes * kPer + p * kPer + e.
  const std::size_t query_row =
      static_cast<std::size_t>(sequence) * static_cast<unsigned>(a.query_heads) +
      static_cast<unsigned>(first_head);
  for (int i = static_cast<int>(threadIdx.x); i < kHeads * kDim; i += kThreads) {
    const int h = i / kDim, d = i % kDim;
    const int p = d / kPer % L::kLanes, e = d / (kPer * L::kLanes) * kPer + d % kPer;
    const float q =
        h < heads ? load_element<kFormat>(a.query, query_row * kDim + static_cast<unsigned>(i))
                  : 0.0f;
    reinterpret_cast<float*>(&query[h][e / 4][p])[e % 4] = q * a.scale;
  }
  __syncthreads();

  Accumulator<L, kHeads> sums;
  sums.clear();
  const auto* rows = static_cast<const uint4*>(a.kv.rows);
  // The rows of the next step are looked up (index, block table) while this one is computed. Past
  // the end the last row is read again and weighs nothing: no branch parts the loads. In 32 bits:
  // 2^32 rows of 256 bytes are 1 TB.
  unsigned row[L::kUnroll];
  const auto look_up = [&](int base) {
#pragma unroll
    for (int u = 0; u < L::kUnroll; ++u) {
      const int i = min(base + u * L::kGroups + group, end - 1);
      row[u] = static_cast<unsigned>(a.kv.row(sequence, kv_head, tokens.at(i)));
    }
  };
  const int start = begin + warp * L::kBatch;
  if (begin < end) look_up(start);
  for (int base = start; base < end; base += L::kStep) {
    uint4 k[L::kUnroll][L::kLoads], v[L::kUnroll][L::kLoads];
#pragma unroll
    for (int u = 0; u < L::kUnroll; ++u) {
      const uint4* at = rows + static_cast<std::size_t>(row[u]) * (2 * L::kLoadsARow) + part;
#pragma unroll
      for (int j = 0; j < L::kLoads; ++j) {
        k[u][j] = load_once(at + j * L::kLanes);
        v[u][j] = load_once(at + L::kLoadsARow + j * L::kLanes);
      }
    }
    look_up(base + L::kStep);

    float logit[kHeads][L::kUnroll];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int u = 0; u < L::kUnroll; ++u) logit[h][u] = 0;
    }
#pragma unroll
    for (int j = 0; j < L::kLoads; ++j) {
      float key[L::kUnroll][kPer];
#pragma unroll
      for (int u = 0; u < L::kUnroll; ++u) unpack<kFormat>(k[u][j], key[u]);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int c = 0; c < kPer / 4; ++c) {
          const float4 q = query[h][j * (kPer / 4) + c][part];
#pragma unroll
          for (int u = 0; u < L::kUnroll; ++u) {
            logit[h][u] += q.x * key[u][4 * c] + q.y * key[u][4 * c + 1] + q.z * key[u][4 * c + 2] +
                           q.w * key[u][4 * c + 3];
          }
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int u = 0; u < L::kUnroll; ++u) logit[h][u] = warp_sum<L::kLanes>(logit[h][u]);
    }
    if (a.soft_cap > 0) {  // one branch for all: it is rare, and tanh is long
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int u = 0; u < L::kUnroll; ++u) {
          logit[h][u] = a.soft_cap * tanhf(logit[h][u] / a.soft_cap);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float top = sums.state[h].top;
#pragma unroll
      for (int u = 0; u < L::kUnroll; ++u) {
        const bool valid = base + u * L::kGroups + group < end;
        logit[h][u] = valid ? logit[h][u] * kLog2E : minus_infinity();
        top = fmaxf(top, logit[h][u]);
      }
      const float own = rescale(sums.state[h].top, top);
      sums.state[h].sum *= own;
#pragma unroll
      for (int e = 0; e < L::kElements; ++e) sums.values[h][e] *= own;
      sums.state[h].top = top;
      // Nothing but -infinity so far: weights of 0, not exp2(-inf + inf).
      const float reference = top == minus_infinity() ? 0.0f : top;
#pragma unroll
      for (int u = 0; u < L::kUnroll; ++u) {
        logit[h][u] = exp2_approx(logit[h][u] - reference);
        sums.state[h].sum += logit[h][u];
      }
    }
#pragma unroll
    for (int u = 0; u < L::kUnroll; ++u) {
#pragma unroll
      for (int j = 0; j < L::kLoads; ++j) {
        // A weight of 0 does not silence an infinity.
        if (base + u * L::kGroups + group >= end) v[u][j] = uint4{0, 0, 0, 0};
        float value[kPer];
        unpack<kFormat>(v[u][j], value);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
#pragma unroll
          for (int e = 0; e < kPer; ++e) sums.values[h][j * kPer + e] += logit[h][u] * value[e];
        }
      }
    }
  }

  // Groups of lanes, then warps: the upper half hands over to the lower one.
#pragma unroll
  for (int step = L::kLanes; step < kWarp; step *= 2) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const State other{__shfl_xor_sync(kWholeWarp, sums.state[h].top, step),
                        __shfl_xor_sync(kWholeWarp, sums.state[h].sum, step)};
      sums.add(h, other,
               [&](int e) { return __shfl_xor_sync(kWholeWarp, sums.values[h][e], step); });
    }
  }
  const auto element = [&](int e) {
    return e / kPer * (L::kLanes * kPer) + part * kPer + e % kPer;
  };
#pragma unroll
  for (int upper = kWarps / 2; upper > 0; upper /= 2) {
    if (warp >= upper && warp < 2 * upper && group == 0) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (part == 0) merged_state[warp - upper][h] = sums.state[h];
#pragma unroll
        for (int e = 0; e < L::kElements; ++e)
          merged[warp - upper][h][element(e)] = sums.values[h][e];
      }
    }
    __syncthreads();
    if (warp < upper) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        sums.add(h, merged_state[warp][h], [&](int e) { return merged[warp][h][element(e)]; });
      }
    }
    __syncthreads();
  }
  if (warp != 0 || group != 0) return;

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= heads) continue;
    const std::size_t head = query_row + static_cast<unsigned>(h);
    if (a.splits == 1) {
      const float by = 1.0f / sums.state[h].sum;  // all logits -infinity: 0 / 0, NaN
#pragma unroll
      for (int e = 0; e < L::kElements; ++e) {
        store_element<kFormat>(a.out, head * kDim + static_cast<unsigned>(element(e)),
                               tokens.count == 0 ? 0.0f : sums.values[h][e] * by);
      }
    } else {
      const std::size_t at = head * static_cast<unsigned>(a.splits) + static_cast<unsigned>(split);
      if (part == 0) a.partial_state[at] = float2{sums.state[h].top, sums.state[h].sum};
#pragma unroll
      for (int e = 0; e < L::kElements; ++e) {
        a.partial[at * kDim + static_cast<unsigned>(element(e))] = sums.values[h][e];
      }
    }
  }
}

// Blocks: x the query head, y the sequence; a thread an element.
template <Format kFormat, int kDim>
__global__ void __launch_bounds__(kDim) attend_merge(const __grid_constant__ Arguments a) {
  const int head = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.y);
  const Tokens tokens = tokens_of(a, sequence, head / a.group);
  const int splits =
      max(1, min(a.splits, (tokens.count + a.tokens_a_split - 1) / a.tokens_a_split));
  const std::size_t row =
      static_cast<std::size_t>(sequence) * static_cast<unsigned>(a.query_heads) +
      static_cast<unsigned>(head);
  const float2* states = a.partial_state + row * static_cast<unsigned>(a.splits);
  const float* values = a.partial + row * static_cast<unsigned>(a.splits) * kDim + threadIdx.x;
  float top = minus_infinity();
  for (int s = 0; s < splits; ++s) top = fmaxf(top, states[s].x);
  float sum = 0, value = 0;
  for (int s = 0; s < splits; ++s) {
    const float by = rescale(states[s].x, top);
    sum += states[s].y * by;  // a NaN stays one, even by 0
    value += values[static_cast<std::size_t>(s) * kDim] * by;
  }
  store_element<kFormat>(a.out, row * kDim + threadIdx.x, tokens.count == 0 ? 0.0f : value / sum);
}

int heads_a_block(const Attend& args) {
  const bool few = args.query_heads / args.kv.kv_heads <= 4;
  return args.kv.format == Format::fp32 || few ? 4 : 8;
}

struct Plan {
  int group, heads, chunks, splits, tokens_a_split;
};
Plan plan(const Attend& args) {
  Plan p{};
  p.group = args.query_heads / args.kv.kv_heads;
  p.heads = heads_a_block(args);
  p.chunks = (p.group + p.heads - 1) / p.heads;
  const int range = args.window > 0 ? std::min(args.window, args.max_tokens) : args.max_tokens;
  const long long blocks = static_cast<long long>(args.sequences) * args.kv.kv_heads * p.chunks;
  // Two waves' worth of blocks, so that sequences of different length even out.
  const long long wanted = 2ll * blocks_an_sm(p.heads) * multiprocessors();
  const long long most =
      std::min<long long>(kMaxSplits, (range + kTokensASplit - 1) / kTokensASplit);
  p.splits = static_cast<int>(std::max(1ll, std::min(most, wanted / std::max(1ll, blocks))));
  p.tokens_a_split = std::max(1, (range + p.splits - 1) / p.splits);
  return p;
}

std::size_t states_of(const Attend& args, const Plan& p) {
  return static_cast<std::size_t>(args.sequences) * static_cast<std::size_t>(args.query_heads) *
         static_cast<std::size_t>(p.splits);
}

template <Format kFormat, int kDim, int kHeads>
void run(const Attend& args, const Arguments& a, Stream stream) {
  launch({dim3(static_cast<unsigned>(a.splits), static_cast<unsigned>(args.kv.kv_heads * a.chunks),
               static_cast<unsigned>(args.sequences)),
          kThreads, 0, stream},
         attend_split<kFormat, kDim, kHeads>, a);
  if (a.splits > 1) {
    launch({dim3(static_cast<unsigned>(args.query_heads), static_cast<unsigned>(args.sequences)),
            kDim, 0, stream},
           attend_merge<kFormat, kDim>, a);
  }
}

template <Format kFormat, int kDim>
void run(const Attend& args, const Arguments& a, int heads, Stream stream) {
  if constexpr (kFormat != Format::fp32) {
    if (heads == 8) return run<kFormat, kDim, 8>(args, a, stream);
  }
  run<kFormat, kDim, 4>(args, a, stream);
}

template <Format kFormat>
void run(const Attend& args, const Arguments& a, int heads, Stream stream) {
  switch (args.kv.head_dim) {
    case 64:
      return run<kFormat, 64>(args, a, heads, stream);
    case 128:
      return run<kFormat, 128>(args, a, heads, stream);
    default:
      return run<kFormat, 256>(args, a, heads, stream);
  }
}

}  // namespace

const char* problem(const Attend& args) {
  if (const char* found = shape_problem(args.kv)) return found;
  if (args.kv.head_dim != 64 && args.kv.head_dim != 128 && args.kv.head_dim != 256) {
    return "a head dimension other than 64, 128 and 256";
  }
  if (args.sequences < 0 || args.sequences > 65535) return "not 0 to 65535 sequences";
  if (const char* found = problem_of_heads(args.query_heads, args.kv.kv_heads)) return found;
  if (args.query_heads > 65535) return "more than 65535 query heads";
  if (args.window < 0) return "a negative window";
  if (const char* found = problem_of_soft_cap(args.soft_cap)) return found;
  if (args.max_tokens < 0) return "a negative number of tokens";
  if (args.sequences > 0 &&
      (args.query == nullptr || args.out == nullptr || args.kv_tokens == nullptr)) {
    return "no query, no output or no lengths";
  }
  if (args.indexed && args.index_width > 0 && args.sequences > 0 && args.index == nullptr) {
    return "no index";
  }
  return nullptr;
}

std::size_t attend_workspace(const Attend& args) {
  require(problem(args));
  const Plan p = plan(args);
  if (p.splits == 1) return 0;
  return states_of(args, p) *
         (sizeof(float2) + static_cast<std::size_t>(args.kv.head_dim) * sizeof(float));
}

void attend(const Attend& args, Workspace workspace, Stream stream) {
  require(problem(args));
  if (args.sequences == 0) return;
  if (workspace.bytes < attend_workspace(args)) require("a workspace that is too small");
  const Plan p = plan(args);
  Arguments a{};
  a.query = args.query;
  a.kv = DeviceKv(args.kv);
  a.kv_tokens = args.kv_tokens;
  a.index = args.index;
  a.index_count = args.index_count;
  a.query_heads = args.query_heads;
  a.group = p.group;
  a.chunks = p.chunks;
  a.token_limit = args.kv.table_width * args.kv.block_tokens;
  if (!args.indexed) a.token_limit = std::min(a.token_limit, args.max_tokens);
  a.window = args.window;
  a.index_width = args.index_width;
  a.indexed = args.indexed;
  a.scale = args.scale;
  a.soft_cap = args.soft_cap;
  a.out = args.out;
  a.splits = p.splits;
  a.tokens_a_split = p.tokens_a_split;
  a.partial_state = static_cast<float2*>(workspace.memory);
  a.partial = reinterpret_cast<float*>(a.partial_state + (p.splits > 1 ? states_of(args, p) : 0));
  switch (args.kv.format) {
    case Format::bf16:
      return run<Format::bf16>(args, a, p.heads, stream);
    case Format::fp16:
      return run<Format::fp16>(args, a, p.heads, stream);
    case Format::fp32:
      return run<Format::fp32>(args, a, p.heads, stream);
  }
}

Budget attend_budget(int head_dim, int heads) {
  const std::size_t d = static_cast<std::size_t>(head_dim), h = static_cast<std::size_t>(heads);
  return Budget{kThreads, blocks_an_sm(heads),
                h * d * sizeof(float) + kWarps / 2 * h * (d * sizeof(float) + sizeof(State)), 128};
}

}  // namespace kvlane::kernels::cuda
