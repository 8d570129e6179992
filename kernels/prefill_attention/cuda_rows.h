#pragma once
// Which rows and keys a block of prefill attention works on, and the merge of what blocks leave
// that share rows. A row is a new token and one of the query heads of a kv head, heads of a token
// next to each other: K and V are read once for all of them, and a few new tokens fill a tile.

#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_format.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/ptx.h"

namespace kvlane::kernels::cuda::prefill {

inline constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

struct Arguments {
  const void* query;
  DeviceKv kv;
  const std::int32_t* new_tokens;
  const std::int32_t* kv_tokens;
  int query_heads, max_new_tokens, token_limit, window;
  FastDivide group;  // query heads of a kv head
  float scale, soft_cap;
  void* out;
  int tiles, splits;      // of the rows of a sequence and kv head; blocks that share a tile's keys
  float* partial;         // [sequences][kv_heads][tiles][splits][rows of a tile][head_dim]
  float2* partial_state;  // likewise, without head_dim: maximum in powers of two, and sum
};

// Blocks: x tile and split (tiles with the most keys first), y the kv head, z the sequence.
struct Rows {
  const Arguments* arguments;
  int first, count;          // of the tile
  int cached;                // the position of the first new token
  unsigned before;           // new tokens of the sequences before
  int first_key, key_count;  // of this split
  std::size_t partial;       // the tile's first row in partial_state, of this split

  // Of row r of the tile; rows past the end stand where the last one does.
  __device__ __forceinline__ int position(int r) const {
    return cached + arguments->group.quotient(first + min(r, count - 1));
  }
  __device__ __forceinline__ int oldest(int at) const {  // key that a query at a position sees
    return arguments->window > 0 ? max(0, at + 1 - arguments->window) : 0;
  }
  // Row r in `query` and `out`, in head_dims.
  __device__ __forceinline__ std::size_t tensor_row(int r) const {
    const int group = arguments->group.divisor();
    const int token = arguments->group.quotient(first + r), head = first + r - token * group;
    return static_cast<std::size_t>(before + static_cast<unsigned>(token)) *
               static_cast<unsigned>(arguments->query_heads) +
           blockIdx.y * static_cast<unsigned>(group) + static_cast<unsigned>(head);
  }
};

// All threads call it. count is 0 where the sequence has no such rows.
template <int kRows, int kKeys, int kThreads>
__device__ __forceinline__ Rows rows_of_block(const Arguments& a, int tile, int split) {
  auto& sums = shared<unsigned[kThreads / kWarp], "prefill tokens before">();
  const int sequence = static_cast<int>(blockIdx.z);
  unsigned before = 0;
  for (int i = static_cast<int>(threadIdx.x); i < sequence; i += kThreads) {
    before += static_cast<unsigned>(max(0, a.new_tokens[i]));
  }
  before = warp_sum(before);
  if (lane_of_warp() == 0) sums[warp_of_block()] = before;
  __syncthreads();
  Rows rows{};
  rows.arguments = &a;
  for (unsigned sum : sums) rows.before += sum;
  const int kv_tokens = max(0, min(a.kv_tokens[sequence], a.token_limit));
  const int tokens = max(0, min(min(a.new_tokens[sequence], a.max_new_tokens), kv_tokens));
  rows.cached = kv_tokens - tokens;
  rows.first = tile * kRows;
  rows.count = max(0, min(kRows, tokens * a.group.divisor() - rows.first));
  if (rows.count == 0) return rows;
  const int begin = rows.oldest(rows.position(0)), end = rows.position(rows.count - 1) + 1;
  const int steps = (end - begin + kKeys - 1) / kKeys;
  const int mine = ((steps + a.splits - 1) / a.splits) * kKeys;
  rows.first_key = begin + split * mine;
  rows.key_count = max(0, min(mine, end - rows.first_key));
  rows.partial = (((static_cast<std::size_t>(sequence) * gridDim.y + blockIdx.y) *
                       static_cast<unsigned>(a.tiles) +
                   static_cast<unsigned>(tile)) *
                      static_cast<unsigned>(a.splits) +
                  static_cast<unsigned>(split)) *
                 kRows;
  return rows;
}

__device__ __forceinline__ float logit_of(const Arguments& a, float dot) {  // in powers of two
  float x = dot * a.scale;
  if (a.soft_cap > 0) x = a.soft_cap * tanhf(x / a.soft_cap);
  return x * kLog2E;
}

// The factor by which what was added up under `top` counts under `new_top` >= top.
__device__ __forceinline__ float rescale(float top, float new_top) {
  return top == minus_infinity() ? 0.0f : exp2_approx(top - new_top);
}

// Blocks: x the tile, y, z as above; a warp a row. A thread has kDim / 32 elements, 32 apart.
template <Format kFormat, int kDim, int kRows, int kKeys>
__global__ void __launch_bounds__(128) merge_splits(const __grid_constant__ Arguments a) {
  const Rows rows = rows_of_block<kRows, kKeys, 128>(a, static_cast<int>(blockIdx.x), 0);
  const int lane = lane_of_warp();
  for (int r = warp_of_block(); r < rows.count; r += 128 / kWarp) {
    const float2* states = a.partial_state + rows.partial + static_cast<unsigned>(r);
    float top = minus_infinity(), sum = 0, values[kDim / kWarp] = {};
    for (int s = 0; s < a.splits; ++s) top = fmaxf(top, states[s * kRows].x);
    for (int s = 0; s < a.splits; ++s) {
      const float2 state = states[s * kRows];
      // No keys, or none above minus infinity: its values were not written or are 0.
      if (state.x == minus_infinity() && state.y == 0) continue;
      const float by = rescale(state.x, top);
      sum += state.y * (state.x == minus_infinity() ? 1.0f : by);  // a NaN stays one
      const float* from =
          a.partial + (rows.partial + static_cast<unsigned>(s * kRows + r)) * kDim + lane;
#pragma unroll
      for (int i = 0; i < kDim / kWarp; ++i) values[i] += from[i * kWarp] * by;
    }
    const std::size_t out = rows.tensor_row(r) * kDim + static_cast<unsigned>(lane);
#pragma unroll
    for (int i = 0; i < kDim / kWarp; ++i) {
      store_element<kFormat>(a.out, out + static_cast<unsigned>(i * kWarp), values[i] / sum);
    }
  }
}

}  // namespace kvlane::kernels::cuda::prefill
