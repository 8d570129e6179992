// InfiniGen's scores and how many rows to take.
//
// Versions
//   1. logits twice, once for maximum and sum, once for the scores: keys are read twice, and what
//      was counted against the threshold may differ from what was summed.
//   2. (here) two kernels. The first reads the keys once for up to 8 query heads of a kv head, a
//      tile of 128 tokens at a time: 16-byte loads by all, into shared memory as floats, a token a
//      thread from there (rows an odd number of 16 bytes long: no bank conflicts). It writes the
//      logits and each chunk's maximum and sum of exponentials. The second turns logits into scores
//      and counts; its last block says how many rows to take.
// Rows of keys that are no multiple of 16 bytes are read an element at a time: right, not fast.
//
// Bytes a token and kv head of G query heads: 2 d' of keys (16 bits), 4 written, 8 G of logits to
// and fro (from L2 where they fit). d' 32, G 4: 64 + 4 + 32. In flight: first kernel 64 a thread, 3
// blocks of 128 threads at least (a T4's shared memory; others hold 5): 24 KiB an SM; second 64,
// 4 of 256: 64 KiB; an H100 needs 18 KB (700 ns x 3.35 TB/s / 132).
// Expected at 80 % of peak: 8 sequences x 8 kv heads x 32 K tokens, d' 32, G 4, bf16: 210 MB: 78 us
// on an H100, 0.30 ms on an L20 (864 GB/s). Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_format.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/infinigen/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp, kBlocksAnSm = 3;
constexpr int kLoads = 4;  // of 16 bytes, in flight a thread
constexpr int kScoreThreads = 256, kScoreBlocksAnSm = 4;
constexpr int kScoreStep = kScoreThreads * 4;  // tokens; chunks are whole steps
constexpr float kLog2E = 1.4426950408889634f;

struct Totals {
  unsigned long long wanted;  // tokens above the threshold, all query heads
  unsigned done;              // blocks
};

// A maximum and the sum of e^(x - maximum); -inf and 0 for none. A NaN is in the sum only.
struct State {
  float top, sum;
};

struct Arguments {
  InfinigenScore score;
  FastDivide kept;
  int group, head_chunks;   // query heads a kv head; blocks that share them
  int tile, pitch;          // tokens and floats of a row in shared memory
  int chunk, chunks;        // tokens of a block, blocks a row
  bool aligned;             // rows of keys are whole 16-byte loads
  std::size_t logit_pitch;  // of a query head's logits
  Totals* totals;
  State* states;  // [sequences][query_heads][chunks]
  float* logits;  // [sequences][query_heads][logit_pitch]
};

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// What a sum under `top` counts under `new_top` >= top.
__device__ __forceinline__ float rescale(float top, float new_top) {
  return top == minus_infinity() ? 0.0f : exp2_approx((top - new_top) * kLog2E);
}

__device__ __forceinline__ void add(State& state, float x) {
  const float top = fmaxf(state.top, x);
  // Without a maximum yet -inf adds 0 and a NaN stays one.
  const float term = exp2_approx((x - (top == minus_infinity() ? 0.0f : top)) * kLog2E);
  state = State{top, state.sum * rescale(state.top, top) + term};
}

__device__ __forceinline__ State merge_warp(State state) {
  const float top = warp_max(state.top);
  return State{top, warp_sum(state.sum * rescale(state.top, top))};
}

// Tokens [first, first + tokens) of a row of keys, as floats.
template <Format kFormat>
__device__ __forceinline__ void fill(float* tile, const Arguments& a, std::size_t row, int first,
                                     int tokens) {
  constexpr int kPer = kPerLoad<kFormat>;
  const int kept = a.score.channels_kept, elements = tokens * kept;
  const std::size_t begin = (row + static_cast<unsigned>(first)) * static_cast<unsigned>(kept);
  if (!a.aligned) {
    for (int i = static_cast<int>(threadIdx.x); i < elements; i += kThreads) {
      const int token = a.kept.quotient(i);
      tile[token * a.pitch + (i - token * kept)] =
          load_element<kFormat>(a.score.keys, begin + static_cast<unsigned>(i));
    }
    return;
  }
  const auto* from = static_cast<const unsigned char*>(a.score.keys) + begin * kBytes<kFormat>;
  const int pieces = elements / kPer;
  for (int base = static_cast<int>(threadIdx.x); base < pieces; base += kLoads * kThreads) {
    uint4 raw[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      // Past the end: the last again, not kept.
      raw[j] = load_once(from + 16 * min(base + j * kThreads, pieces - 1));
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int piece = base + j * kThreads;
      if (piece >= pieces) continue;
      const int token = a.kept.quotient(piece * kPer);
      float values[kPer];
      unpack<kFormat>(raw[j], values);
      float* to = tile + token * a.pitch + (piece * kPer - token * kept);
#pragma unroll
      for (int e = 0; e < kPer; e += 4) {
        *reinterpret_cast<float4*>(to + e) =
            float4{values[e], values[e + 1], values[e + 2], values[e + 3]};
      }
    }
  }
}

// Blocks: x sequence, kv head and chunk of its query heads, y the chunk of tokens.
template <Format kFormat, int kHeads>
__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    infinigen_logits(const __grid_constant__ Arguments a) {
  auto& merged = shared<State[kWarps][kHeads], "infinigen merged">();
  auto* tile = dynamic_shared<float>();
  const InfinigenScore& args = a.score;
  const int kept = args.channels_kept, padded = (kept + 3) & ~3,
            thread = static_cast<int>(threadIdx.x);
  float* query = tile + a.tile * a.pitch;  // [kHeads][padded]
  const auto block = static_cast<int>(blockIdx.x);
  const int pair = block / a.head_chunks, first_of_group = block % a.head_chunks * kHeads;
  const int sequence = pair / args.kv_heads;
  const int heads = min(kHeads, a.group - first_of_group);
  const std::size_t first_head = static_cast<std::size_t>(pair) * static_cast<unsigned>(a.group) +
                                 static_cast<unsigned>(first_of_group);
  const int n = max(0, min(args.kv_tokens[sequence], args.width));
  const int begin = static_cast<int>(blockIdx.y) * a.chunk, end = min(begin + a.chunk, n);

  // Zeros where a row or a head ends before a whole float4 or kHeads.
  for (int i = thread; i < kHeads * padded; i += kThreads) {
    const int head = i / padded, c = i % padded;
    query[i] = head < heads && c < kept
                   ? load_element<kFormat>(args.query, (first_head + static_cast<unsigned>(head)) *
                                                               static_cast<unsigned>(kept) +
                                                           static_cast<unsigned>(c))
                   : 0.0f;
  }
  for (int i = thread; i < a.tile; i += kThreads) {
    for (int c = kept; c < padded; ++c) tile[i * a.pitch + c] = 0;
  }
  State state[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) state[h] = State{minus_infinity(), 0};

  const std::size_t row = static_cast<std::size_t>(pair) * static_cast<unsigned>(args.width);
  for (int first = begin; first < end; first += a.tile) {
    const int tokens = min(a.tile, end - first);
    __syncthreads();
    fill<kFormat>(tile, a, row, first, tokens);
    __syncthreads();
    if (thread >= tokens) continue;
    float sums[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) sums[h] = 0;
#pragma unroll 2
    for (int c = 0; c < padded; c += 4) {
      const float4 k = *reinterpret_cast<const float4*>(tile + thread * a.pitch + c);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float4 q = *reinterpret_cast<const float4*>(query + h * padded + c);
        sums[h] += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads) continue;
      const float x = sums[h] * args.scale;
      a.logits[(first_head + static_cast<unsigned>(h)) * a.logit_pitch +
               static_cast<unsigned>(first + thread)] = x;
      add(state[h], x);
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    state[h] = merge_warp(state[h]);
    if (lane_of_warp() == 0) merged[warp_of_block()][h] = state[h];
  }
  __syncthreads();
  if (thread >= heads) return;
  State all = merged[0][thread];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
    const State other = merged[w][thread];
    const float top = fmaxf(all.top, other.top);
    all = State{top, all.sum * rescale(all.top, top) + other.sum * rescale(other.top, top)};
  }
  a.states[(first_head + static_cast<unsigned>(thread)) * static_cast<unsigned>(a.chunks) +
           blockIdx.y] = all;
}

// As rows_to_take() of take.h, by the first warp.
__device__ __forceinline__ void write_take(const InfinigenScore& args, unsigned long long wanted) {
  int longest = 0;
  for (int i = lane_of_warp(); i < args.sequences; i += kWarp) {
    longest = max(longest, min(args.kv_tokens[i], args.width));
  }
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    longest = max(longest, __shfl_xor_sync(kWholeWarp, longest, step));
  }
  if (lane_of_warp() != 0) return;
  const auto heads = static_cast<unsigned long long>(args.sequences) *
                     static_cast<unsigned long long>(args.query_heads);
  int take = max(static_cast<int>(wanted / heads), 1);  // a mean of lengths: an int
  if (args.cap > 0) take = min(take, args.cap);
  *args.take = min(take, longest);
}

// Blocks: x sequence and kv head, y the chunk of tokens.
__global__ void __launch_bounds__(kScoreThreads, kScoreBlocksAnSm)
    infinigen_scores(const __grid_constant__ Arguments a) {
  auto& counts = shared<int, "infinigen counts">();
  auto* softmax = dynamic_shared<float2>();  // of the group's heads: maximum, 1 / sum
  const InfinigenScore& args = a.score;
  const auto pair = static_cast<std::size_t>(blockIdx.x);
  const int sequence = static_cast<int>(blockIdx.x / static_cast<unsigned>(args.kv_heads));
  const int n = max(0, min(args.kv_tokens[sequence], args.width));
  const int begin = static_cast<int>(blockIdx.y) * a.chunk, end = min(begin + a.chunk, n);
  const std::size_t first_head = pair * static_cast<unsigned>(a.group);
  if (threadIdx.x == 0) counts = 0;
  for (int h = warp_of_block(); h < a.group; h += kScoreThreads / kWarp) {
    State all{minus_infinity(), 0};
    const State* states =
        a.states + (first_head + static_cast<unsigned>(h)) * static_cast<unsigned>(a.chunks);
    for (int c = lane_of_warp(); c < a.chunks; c += kWarp) {
      const State other = states[c];
      const float top = fmaxf(all.top, other.top);
      all = State{top, all.sum * rescale(all.top, top) + other.sum * rescale(other.top, top)};
    }
    all = merge_warp(all);
    if (lane_of_warp() == 0) softmax[h] = float2{all.top, 1 / all.sum};
  }
  __syncthreads();

  int wanted = 0;
  float* scores = args.scores + pair * static_cast<unsigned>(args.width);
  const bool store_four = reinterpret_cast<std::uintptr_t>(scores) % 16 == 0;
  for (int base = begin + static_cast<int>(threadIdx.x) * 4; base < end; base += kScoreStep) {
    const float* logits = a.logits + first_head * a.logit_pitch + static_cast<unsigned>(base);
    const int valid = min(4, end - base);
    float score[4] = {0, 0, 0, 0};
    for (int g = 0; g < a.group; g += kLoads) {
      float4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        // Past the last: the last again, not counted. Rows are padded to whole loads.
        const auto head = static_cast<unsigned>(min(g + j, a.group - 1));
        raw[j] = *reinterpret_cast<const float4*>(logits + head * a.logit_pitch);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (g + j >= a.group) continue;
        const float2 of_head = softmax[g + j];
        const float x[4] = {raw[j].x, raw[j].y, raw[j].z, raw[j].w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          score[e] += exp2_approx((x[e] - of_head.x) * kLog2E) * of_head.y;
          wanted += e < valid && x[e] > of_head.x - args.alpha ? 1 : 0;
        }
      }
    }
    if (store_four && valid == 4) {
      *reinterpret_cast<float4*>(scores + base) = float4{score[0], score[1], score[2], score[3]};
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (e < valid) scores[base + e] = score[e];
      }
    }
  }
  wanted = warp_sum(wanted);
  if (lane_of_warp() == 0) atomicAdd(&counts, wanted);
  __syncthreads();
  if (warp_of_block() != 0) return;
  // One lane adds and asks who is last, so its fences order the two.
  unsigned long long all = 0;
  bool last = false;
  if (lane_of_warp() == 0) {
    atomicAdd(&a.totals->wanted, static_cast<unsigned long long>(counts));
    __threadfence();
    last = atomicAdd(&a.totals->done, 1u) == gridDim.x * gridDim.y - 1;
    __threadfence();
    if (last) all = atomicAdd(&a.totals->wanted, 0ull);
  }
  if (__shfl_sync(kWholeWarp, last ? 1 : 0, 0) != 0) write_take(args, all);
}

const char* shape_problem(const InfinigenScore& args) {
  if (args.sequences < 0 || args.width < 0) return "a negative size";
  if (const char* found = problem_of_heads(args.query_heads, args.kv_heads)) return found;
  if (args.query_heads / args.kv_heads > 1024) return "more than 1024 query heads a kv head";
  if (args.channels_kept <= 0) return "no kept channels";
  if (args.channels_kept > 256) return "more than 256 kept channels";
  if (args.cap < 0) return "a negative cap";
  if (!(args.alpha >= 0)) return "an alpha that is not a number of 0 or more";
  if (args.take == nullptr) return "no output";
  if (static_cast<long long>(args.sequences) * args.query_heads > 0x7fffffffll) {
    return "more than 2^31 rows";
  }
  if (args.width > 0x7fffffff - 65535) return "rows of almost 2^31 tokens";
  if (args.sequences > 0 && args.width > 0 &&
      (args.kv_tokens == nullptr || args.query == nullptr || args.keys == nullptr ||
       args.scores == nullptr)) {
    return "no lengths, no queries, no keys or no scores";
  }
  return nullptr;
}

std::size_t round_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Plan {
  Arguments arguments;
  std::size_t bytes, states_at, logits_at;  // of the workspace
  int heads;                                // template argument
};

Plan plan(const InfinigenScore& args) {
  Plan p{};
  Arguments& a = p.arguments;
  a.score = args;
  a.kept = FastDivide(args.channels_kept);
  a.group = args.query_heads / args.kv_heads;
  p.heads = a.group == 1 ? 1 : a.group <= 4 ? 4 : 8;
  a.head_chunks = (a.group + p.heads - 1) / p.heads;
  // An odd number of 16 bytes: eight neighbouring rows lie in different banks.
  a.pitch = (args.channels_kept + 3) / 4 * 4;
  if (a.pitch % 8 == 0) a.pitch += 4;
  a.tile = a.pitch <= 92 ? 128 : a.pitch <= 188 ? 64 : 32;  // at most 47 KiB
  const auto row_bytes = static_cast<std::size_t>(args.channels_kept) * bytes_of(args.format);
  a.aligned = row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(args.keys) % 16 == 0;
  const int steps = (args.width + kScoreStep - 1) / kScoreStep;
  const long long rows = static_cast<long long>(args.sequences) * args.kv_heads;
  const auto wanted =
      static_cast<int>(std::max(1ll, 4ll * kBlocksAnSm * multiprocessors() / std::max(1ll, rows)));
  const int steps_a_chunk = std::max({1, steps / wanted, (steps + 65534) / 65535});
  a.chunk = steps_a_chunk * kScoreStep;
  a.chunks = (steps + steps_a_chunk - 1) / steps_a_chunk;
  a.logit_pitch = (static_cast<std::size_t>(args.width) + 3) / 4 * 4;
  const auto heads =
      static_cast<std::size_t>(args.sequences) * static_cast<std::size_t>(args.query_heads);
  p.states_at = round_up(sizeof(Totals));
  p.logits_at = p.states_at + round_up(heads * static_cast<std::size_t>(a.chunks) * sizeof(State));
  p.bytes = p.logits_at + heads * a.logit_pitch * sizeof(float);
  return p;
}

std::size_t logits_shared_bytes(const Arguments& a, int heads) {
  return sizeof(float) *
         static_cast<std::size_t>(a.tile * a.pitch + heads * ((a.score.channels_kept + 3) / 4 * 4));
}

template <Format kFormat, int kHeads>
void logits(const Arguments& a, Stream stream) {
  const dim3 grid(static_cast<unsigned>(a.score.sequences * a.score.kv_heads * a.head_chunks),
                  static_cast<unsigned>(a.chunks));
  launch({grid, kThreads, logits_shared_bytes(a, kHeads), stream},
         infinigen_logits<kFormat, kHeads>, a);
}

template <Format kFormat>
void logits(const Plan& p, Stream stream) {
  if (p.heads == 1) {
    logits<kFormat, 1>(p.arguments, stream);
  } else if (p.heads == 4) {
    logits<kFormat, 4>(p.arguments, stream);
  } else {
    logits<kFormat, 8>(p.arguments, stream);
  }
}

}  // namespace

std::size_t infinigen_workspace(const InfinigenScore& args) {
  require(shape_problem(args));
  return args.sequences == 0 || args.width == 0 ? 0 : plan(args).bytes;
}

void infinigen_score(const InfinigenScore& args, Workspace workspace, Stream stream) {
  require(shape_problem(args));
  if (args.sequences == 0 || args.width == 0) {
    fill(args.take, 0, sizeof *args.take, stream);
    return;
  }
  Plan p = plan(args);
  if (workspace.bytes < p.bytes) require("a workspace that is too small");
  auto* memory = static_cast<unsigned char*>(workspace.memory);
  Arguments& a = p.arguments;
  a.totals = reinterpret_cast<Totals*>(memory);
  a.states = reinterpret_cast<State*>(memory + p.states_at);
  a.logits = reinterpret_cast<float*>(memory + p.logits_at);
  fill(a.totals, 0, sizeof(Totals), stream);
  if (args.format == Format::fp32) {
    logits<Format::fp32>(p, stream);
  } else if (args.format == Format::fp16) {
    logits<Format::fp16>(p, stream);
  } else {
    logits<Format::bf16>(p, stream);
  }
  const dim3 grid(static_cast<unsigned>(args.sequences * args.kv_heads),
                  static_cast<unsigned>(a.chunks));
  launch({grid, kScoreThreads, sizeof(float2) * static_cast<std::size_t>(a.group), stream},
         infinigen_scores, a);
}

Budget infinigen_score_budget(int heads) {
  constexpr int kKept = 32;
  Arguments a{};
  a.score.channels_kept = kKept;
  a.tile = 128;
  a.pitch = kKept + 4;
  return Budget{
      kThreads, kBlocksAnSm,
      logits_shared_bytes(a, heads) + sizeof(State) * static_cast<std::size_t>(kWarps * heads),
      kLoads * 16};
}

}  // namespace kvlane::kernels::cuda
