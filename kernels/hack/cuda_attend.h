#pragma once
// HACK's attention of one query a sequence. A block has a kv head, up to eight of its query heads
// and a range of partitions; a warp takes every n-th partition for itself. K and V of a partition
// are one run of bytes each: cp.async brings them to the warp's own shared memory, V while K is
// computed and the next K while V is, so only __syncwarp() orders anything until the end.
//
// Shared memory: the query [quads of a lane][lane] of float4, then a warp its K and V bytes, and
// its values as C fragments [32 channels][tile m][lane] of float4. Logits go through the K bytes
// from C fragments (two heads a lane) to lanes as operands have them (one head a lane).

#include "kernels/common/ptx.h"
#include "kernels/hack/cuda_layout.h"
#include "kernels/hack/cuda_product.h"

namespace kvlane::kernels::cuda::hack {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr int kMostWarps = 4;
// In place of a term that there is not: finite, and its weight is 0.
inline constexpr float kNoLogit = -3e38f;

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

struct AttendArguments {
  DeviceLayout layout;
  Format format;
  const void* query;
  const unsigned char* store;
  const std::int32_t* kv_tokens;
  int token_limit, query_heads, group, chunks;  // heads of a kv head; blocks that share them
  float scale;
  void* out;
  int splits, parts_a_split;
  float* partial;         // [sequences][query_heads][splits][head_dim]
  float2* partial_state;  // [sequences][query_heads][splits]: maximum in powers of two, and sum
};

// Shared memory of a warp, in bytes.
__host__ __device__ inline unsigned key_bytes(unsigned side, int partition) {
  const unsigned logits = static_cast<unsigned>(kHeads * (partition + 4) * 4);
  return side > logits ? side : logits;
}
__host__ __device__ inline unsigned warp_bytes(unsigned side, int partition, int head_dim) {
  return key_bytes(side, partition) + side + static_cast<unsigned>(kHeads * head_dim * 4);
}

__device__ __forceinline__ float2 unpack_16(Format format, unsigned pair) {
  return format == Format::bf16 ? unpack_pair<Format::bf16>(pair) : unpack_pair<Format::fp16>(pair);
}

// The running softmax of head lane / 4: `sum` is of the terms of this lane.
struct State {
  float top, sum;
};

// Weights of this lane's logits; returns the factor of what was added up before. A logit that is
// not finite makes the sum NaN.
template <int kCount>
__device__ __forceinline__ float weigh(State& state, float (&logits)[kCount], bool quarters) {
  float top = state.top;
#pragma unroll
  for (int i = 0; i < kCount; ++i) top = fmaxf(top, logits[i]);
  if (quarters) top = warp_max<4>(top);
  const float keep = state.top == minus_infinity() ? 0.0f : exp2_approx(state.top - top);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sum += logits[i] * 0.0f;
    logits[i] = exp2_approx(logits[i] - top);
    sum += logits[i];
  }
  state.top = top;
  state.sum = state.sum * keep + sum;
  return keep;
}

// What the lane of head h (first of its four) has, for heads 2 t and 2 t + 1.
__device__ __forceinline__ float2 of_two_heads(float mine) {
  const int t = lane_of_warp() % 4;
  return float2{__shfl_sync(kWholeWarp, mine, 8 * t), __shfl_sync(kWholeWarp, mine, 8 * t + 4)};
}

// Tokens in 16 bit, rows one after the other: a warp takes kBatch at a time in turn.
template <typename T>
__device__ __forceinline__ void add_exact(const AttendArguments& a, const unsigned char* keys,
                                          const unsigned char* rows_of_values, int count,
                                          const float4* query, float4* values, State& state) {
  constexpr int kBatch = 4;
  const int lane = lane_of_warp(), g = lane / 4, t = lane % 4;
  const int dim = a.layout.head_dim, warps = static_cast<int>(blockDim.x) / kWarp;
  for (int base = warp_of_block() * kBatch; base < count; base += warps * kBatch) {
    float logits[kBatch] = {};
    for (int group = 0; group < a.layout.groups && T::has(t); ++group) {
#pragma unroll
      for (int q = 0; q < T::kQuads; ++q) {
        const float4 operand = query[(group * T::kQuads + q) * kWarp + lane];
        const int channel = group * a.layout.partition + T::first(q, t);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int token = min(base + i, count - 1);
          const uint2 bits = *reinterpret_cast<const uint2*>(keys + 2 * (token * dim + channel));
          const float2 low = unpack_16(a.format, bits.x), high = unpack_16(a.format, bits.y);
          logits[i] +=
              operand.x * low.x + operand.y * low.y + operand.z * high.x + operand.w * high.y;
        }
      }
    }
    float weights[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      weights[i] = warp_sum<4>(logits[i]) * (a.scale * kLog2E);
      if (base + i >= count) weights[i] = kNoLogit;
    }
    const float keep = weigh(state, weights, false);
    if (t != 0) state.sum = 0;  // every lane of a head has all of the batch
    const float2 keeps = of_two_heads(keep);
    float2 two[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) two[i] = of_two_heads(weights[i]);
    for (int block = 0; block < dim / 32; ++block) {
      float4 sums[2] = {values[2 * block * kWarp + lane], values[(2 * block + 1) * kWarp + lane]};
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        sums[m].x *= keeps.x;
        sums[m].y *= keeps.y;
        sums[m].z *= keeps.x;
        sums[m].w *= keeps.y;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (base + i >= count) continue;
        const uint2 bits = *reinterpret_cast<const uint2*>(
            rows_of_values + 2 * ((base + i) * dim + 32 * block + 4 * g));
        const float2 low = unpack_16(a.format, bits.x), high = unpack_16(a.format, bits.y);
        sums[0].x += two[i].x * low.x;
        sums[0].y += two[i].y * low.x;
        sums[0].z += two[i].x * low.y;
        sums[0].w += two[i].y * low.y;
        sums[1].x += two[i].x * high.x;
        sums[1].y += two[i].y * high.x;
        sums[1].z += two[i].x * high.y;
        sums[1].w += two[i].y * high.y;
      }
      values[2 * block * kWarp + lane] = sums[0];
      values[(2 * block + 1) * kWarp + lane] = sums[1];
    }
  }
}

__device__ __forceinline__ Square square_of(const DeviceLayout& layout, const unsigned char* side,
                                            int group) {
  const unsigned first = static_cast<unsigned>(group * layout.partition);
  return Square{side + static_cast<unsigned>(group) * layout.square,
                reinterpret_cast<const unsigned short*>(side + layout.mins) + first,
                reinterpret_cast<const unsigned short*>(side + layout.scales) + first,
                side + layout.sums + first * static_cast<unsigned>(layout.sum_bytes)};
}

// Bytes of K or V of a partition to shared memory, by the warp; a group of copies.
__device__ __forceinline__ void copy_side(unsigned char* to, const unsigned char* from,
                                          unsigned bytes) {
  for (unsigned i = static_cast<unsigned>(lane_of_warp()) * 16; i < bytes; i += kWarp * 16) {
    async_copy_16(to + i, from + i);
  }
  async_copy_commit();
}

// One partition whose K is on its way as the newest group of copies. `next` is the K to ask for, or
// null.
template <typename Product>
__device__ __forceinline__ void add_part(const AttendArguments& a, const unsigned char* part,
                                         const unsigned char* next, unsigned char* keys,
                                         unsigned char* values_side, const float4* query,
                                         float4* values, State& state) {
  using T = typename Product::T;
  const DeviceLayout& layout = a.layout;
  const int lane = lane_of_warp(), g = lane / 4, t = lane % 4;
  copy_side(values_side, part + layout.values, layout.values);
  async_copy_wait<1>();
  __syncwarp();

  float dots[T::kBlocks][2][4] = {};
  for (int group = 0; group < layout.groups; ++group) {
    const Square square = square_of(layout, keys, group);
    float x[T::kQuads][4];
#pragma unroll
    for (int q = 0; q < T::kQuads; ++q) {
      const float4 four = query[(group * T::kQuads + q) * kWarp + lane];
      x[q][0] = four.x;
      x[q][1] = four.y;
      x[q][2] = four.z;
      x[q][3] = four.w;
    }
    Product product;
    product.make(square, x);
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) product.add(square, block, dots[block]);
  }

  __syncwarp();  // nobody reads K any more
  constexpr int kPitch = 32 * T::kBlocks + 4;
  auto* logits = reinterpret_cast<float*>(keys);
#pragma unroll
  for (int block = 0; block < T::kBlocks; ++block) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float4*>(logits + (2 * t + h) * kPitch + 32 * block + 4 * g) = float4{
          dots[block][0][h], dots[block][0][2 + h], dots[block][1][h], dots[block][1][2 + h]};
    }
  }
  __syncwarp();
  float weights[4 * T::kQuads];
#pragma unroll
  for (int q = 0; q < T::kQuads; ++q) {
    float4 four{0, 0, 0, 0};
    if (T::has(t)) {
      four = *reinterpret_cast<const float4*>(logits + g * kPitch + T::first(q, t));
    }
    const float by = a.scale * kLog2E;
    weights[4 * q] = four.x * by;
    weights[4 * q + 1] = four.y * by;
    weights[4 * q + 2] = four.z * by;
    weights[4 * q + 3] = four.w * by;
    if (!T::has(t)) {
#pragma unroll
      for (int e = 0; e < 4; ++e) weights[4 * q + e] = kNoLogit;
    }
  }
  __syncwarp();  // before the next K overwrites the logits
  if (next != nullptr) {
    copy_side(keys, next, layout.values);
  } else {
    async_copy_commit();
  }
  const float2 keep = of_two_heads(weigh(state, weights, true));

  async_copy_wait<1>();
  __syncwarp();
  float x[T::kQuads][4];
#pragma unroll
  for (int i = 0; i < 4 * T::kQuads; ++i) x[i / 4][i % 4] = weights[i];
  for (int group = 0; group < layout.groups; ++group) {
    const Square square = square_of(layout, values_side, group);
    Product product;
    product.make(square, x);
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
      float4* at = values + (group * T::kBlocks + block) * 2 * kWarp + lane;
      float sums[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float4 before = at[m * kWarp];
        sums[m][0] = before.x * keep.x;
        sums[m][1] = before.y * keep.y;
        sums[m][2] = before.z * keep.x;
        sums[m][3] = before.w * keep.y;
      }
      product.add(square, block, sums);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        at[m * kWarp] = float4{sums[m][0], sums[m][1], sums[m][2], sums[m][3]};
      }
    }
  }
  __syncwarp();  // before the next V
}

// What the warps of the block have becomes one result, and is written.
__device__ __forceinline__ void write_result(const AttendArguments& a, const State& state,
                                             const unsigned char* first_values, unsigned stride,
                                             int heads, std::size_t query_row, int split,
                                             bool empty) {
  auto& states = shared<State[kMostWarps][kHeads], "hack states">();
  auto& factors = shared<float[kMostWarps][kHeads], "hack factors">();
  auto& totals = shared<State[kHeads], "hack totals">();
  const int lane = lane_of_warp(), warps = static_cast<int>(blockDim.x) / kWarp;
  const float sum = warp_sum<4>(state.sum);
  if (lane % 4 == 0) states[warp_of_block()][lane / 4] = State{state.top, sum};
  __syncthreads();
  if (threadIdx.x < kHeads) {
    const int h = static_cast<int>(threadIdx.x);
    State total{minus_infinity(), 0};
    for (int w = 0; w < warps; ++w) total.top = fmaxf(total.top, states[w][h].top);
    for (int w = 0; w < warps; ++w) {
      const float top = states[w][h].top;
      factors[w][h] = top == minus_infinity() ? 0.0f : exp2_approx(top - total.top);
      // A warp whose logits are all NaN has no maximum, but a NaN stays one, even by 0.
      total.sum += states[w][h].sum * factors[w][h];
    }
    totals[h] = total;
  }
  __syncthreads();
  const int dim = a.layout.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < dim * 2; i += static_cast<int>(blockDim.x)) {
    const int owner = i % kWarp, h = 2 * (owner % 4);
    const int channel = i / (2 * kWarp) * 32 + owner / 4 * 4 + i / kWarp % 2 * 2;
    float4 all{0, 0, 0, 0};
    for (int w = 0; w < warps; ++w) {
      const float4 own =
          reinterpret_cast<const float4*>(first_values + static_cast<unsigned>(w) * stride)[i];
      all.x += own.x * factors[w][h];
      all.y += own.y * factors[w][h + 1];
      all.z += own.z * factors[w][h];
      all.w += own.w * factors[w][h + 1];
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (h + k >= heads) continue;
      const std::size_t row = query_row + static_cast<unsigned>(h + k);
      float2 pair = k == 0 ? float2{all.x, all.z} : float2{all.y, all.w};
      if (a.splits > 1) {
        *reinterpret_cast<float2*>(
            a.partial +
            (row * static_cast<unsigned>(a.splits) + static_cast<unsigned>(split)) *
                static_cast<unsigned>(dim) +
            channel) = pair;
        continue;
      }
      const float by = 1.0f / totals[h + k].sum;
      pair = empty ? float2{0, 0} : float2{pair.x * by, pair.y * by};
      reinterpret_cast<std::uint32_t*>(
          a.out)[(row * static_cast<unsigned>(dim) + static_cast<unsigned>(channel)) / 2] =
          a.format == Format::bf16 ? pack_pair<Format::bf16>(pair.x, pair.y)
                                   : pack_pair<Format::fp16>(pair.x, pair.y);
    }
  }
  if (a.splits > 1 && static_cast<int>(threadIdx.x) < heads) {
    const State total = totals[threadIdx.x];
    a.partial_state[(query_row + threadIdx.x) * static_cast<unsigned>(a.splits) +
                    static_cast<unsigned>(split)] = float2{total.top, total.sum};
  }
}

// Blocks: x the split, y kv head and chunk of its query heads, z the sequence.
template <typename Product>
__global__ void __launch_bounds__(kMostWarps* kWarp, 3)
    hack_attend(const __grid_constant__ AttendArguments a) {
  using T = typename Product::T;
  const DeviceLayout& layout = a.layout;
  const int split = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y) / a.chunks;
  const int first_of_group = static_cast<int>(blockIdx.y) % a.chunks * kHeads;
  const int heads = min(kHeads, a.group - first_of_group);
  const std::size_t query_row =
      static_cast<std::size_t>(sequence) * static_cast<unsigned>(a.query_heads) +
      static_cast<unsigned>(kv_head * a.group + first_of_group);
  const int tokens = max(0, min(a.kv_tokens[sequence], a.token_limit));
  const int parts = layout.parts(tokens), begin = split * a.parts_a_split;
  const int end = min(begin + a.parts_a_split, parts);
  if (begin >= end && split > 0) return;  // the merge knows

  const int lane = lane_of_warp(), warp = warp_of_block();
  const int warps = static_cast<int>(blockDim.x) / kWarp, dim = layout.head_dim;
  const int query_quads = layout.groups * T::kQuads;
  auto* memory = dynamic_shared<unsigned char>();
  auto* query = reinterpret_cast<float4*>(memory);
  const unsigned stride = warp_bytes(layout.values, layout.partition, dim);
  unsigned char* keys = memory + static_cast<unsigned>(query_quads * kWarp * 16) +
                        static_cast<unsigned>(warp) * stride;
  unsigned char* values_side = keys + key_bytes(layout.values, layout.partition);
  unsigned char* value_bytes = values_side + layout.values;
  auto* values = reinterpret_cast<float4*>(value_bytes);

  const unsigned char* store =
      a.store + layout.sequence_bytes * static_cast<std::size_t>(static_cast<unsigned>(sequence));
  int part = begin + warp;
  if (part < end) copy_side(keys, store + layout.quantised(part, kv_head), layout.values);

  for (int i = static_cast<int>(threadIdx.x); i < query_quads * kWarp;
       i += static_cast<int>(blockDim.x)) {
    const int quad = i / kWarp, h = i % kWarp / 4, t = i % 4;
    const int channel = quad / T::kQuads * layout.partition + T::first(quad % T::kQuads, t);
    float4 four{0, 0, 0, 0};
    if (h < heads && T::has(t)) {
      const uint2 bits = *reinterpret_cast<const uint2*>(
          static_cast<const unsigned char*>(a.query) +
          2 * ((query_row + static_cast<unsigned>(h)) * static_cast<unsigned>(dim) +
               static_cast<unsigned>(channel)));
      const float2 low = unpack_16(a.format, bits.x), high = unpack_16(a.format, bits.y);
      four = float4{low.x, low.y, high.x, high.y};
    }
    query[i] = four;
  }
  for (int i = lane; i < dim * 2; i += kWarp) values[i] = float4{0, 0, 0, 0};
  __syncthreads();

  State state{minus_infinity(), 0};
  if (split == 0) {
    const unsigned char* exact = store + layout.exact(kv_head);
    add_exact<T>(a, exact, exact + layout.sink_values, min(tokens, layout.sinks), query, values,
                 state);
    add_exact<T>(a, exact + layout.open_keys, exact + layout.open_values,
                 max(0, tokens - layout.sinks - parts * layout.partition), query, values, state);
  }
  for (; part < end; part += warps) {
    add_part<Product>(
        a, store + layout.quantised(part, kv_head),
        part + warps < end ? store + layout.quantised(part + warps, kv_head) : nullptr, keys,
        values_side, query, values, state);
  }
  const unsigned char* first_values = value_bytes - static_cast<unsigned>(warp) * stride;
  write_result(a, state, first_values, stride, heads, query_row, split, tokens == 0);
}

// Blocks: x the query head, y the sequence; a thread an element.
static __global__ void __launch_bounds__(256)
    hack_merge(const __grid_constant__ AttendArguments a) {
  const int tokens = max(0, min(a.kv_tokens[blockIdx.y], a.token_limit));
  const int parts = a.layout.parts(tokens);
  const int splits = max(1, min(a.splits, (parts + a.parts_a_split - 1) / a.parts_a_split));
  const std::size_t row =
      static_cast<std::size_t>(blockIdx.y) * static_cast<unsigned>(a.query_heads) + blockIdx.x;
  const float2* states = a.partial_state + row * static_cast<unsigned>(a.splits);
  const unsigned dim = blockDim.x;
  const float* values = a.partial + row * static_cast<unsigned>(a.splits) * dim + threadIdx.x;
  float top = minus_infinity(), sum = 0, value = 0;
  for (int s = 0; s < splits; ++s) top = fmaxf(top, states[s].x);
  for (int s = 0; s < splits; ++s) {
    const float by = states[s].x == minus_infinity() ? 0.0f : exp2_approx(states[s].x - top);
    sum += states[s].y * by;  // a NaN stays one, even by 0
    value += values[static_cast<std::size_t>(static_cast<unsigned>(s)) * dim] * by;
  }
  const float out = tokens == 0 ? 0.0f : value / sum;
  if (a.format == Format::bf16) {
    store_element<Format::bf16>(a.out, row * dim + threadIdx.x, out);
  } else {
    store_element<Format::fp16>(a.out, row * dim + threadIdx.x, out);
  }
}

}  // namespace kvlane::kernels::cuda::hack
