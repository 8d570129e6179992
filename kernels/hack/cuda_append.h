#pragma once
// HACK's append: one kernel quantises the partitions that become whole, a second one, after it,
// copies what stays in 16 bit (it overwrites the open block that the first one reads). A block
// quantises K or V of one partition and head: its rows go to shared memory by 16-byte loads, a
// thread then has one term (min, scale) and after that one output (codes, sum).

#include "kernels/common/cuda_block.h"
#include "kernels/hack/cuda_layout.h"

namespace kvlane::kernels::cuda::hack {

inline constexpr int kMostThreads = 256;
inline constexpr unsigned short kHackNanBits = 0x7fc0;  // bf16

struct AppendArguments {
  DeviceLayout layout;
  const std::int32_t* first;
  const std::int32_t* tokens;
  const void* keys;
  const void* values;
  unsigned char* store;
  int max_new_tokens;
};

// The tokens of a sequence that are added.
struct Added {
  int first, last;
  unsigned source;  // the row of the first one in keys and values
};

// All threads call it.
__device__ __forceinline__ Added added_of(const AppendArguments& a, int sequence) {
  auto& sums = shared<unsigned[kMostThreads / kWarp], "hack tokens before">();
  const int threads = static_cast<int>(blockDim.x);
  unsigned before = 0;
  for (int i = static_cast<int>(threadIdx.x); i < sequence; i += threads) {
    before += static_cast<unsigned>(max(0, a.tokens[i]));
  }
  before = warp_sum(before);
  if (lane_of_warp() == 0) sums[warp_of_block()] = before;
  __syncthreads();
  Added added{};
  for (int w = 0; w < threads / kWarp; ++w) added.source += sums[w];
  const int capacity = a.layout.capacity;
  added.first = max(0, min(a.first[sequence], capacity));
  added.last =
      added.first + max(0, min(min(a.tokens[sequence], a.max_new_tokens), capacity - added.first));
  return added;
}

// The next bf16 at or below, at or above a finite value; -0 becomes +0 (quantise.h).
__device__ __forceinline__ unsigned short below_in_bf16(float value) {
  const unsigned bits = __float_as_uint(value + 0.0f);
  return static_cast<unsigned short>((bits + ((bits >> 31) != 0 ? 0xffffu : 0u)) >> 16);
}
__device__ __forceinline__ unsigned short above_in_bf16(float value) {
  const unsigned bits = __float_as_uint(value + 0.0f);
  return static_cast<unsigned short>((bits + ((bits >> 31) != 0 ? 0u : 0xffffu)) >> 16);
}
__device__ __forceinline__ float of_bf16(unsigned short bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ __forceinline__ bool finite_bf16(unsigned short bits) {
  return (bits & 0x7f80u) != 0x7f80u;
}

// Blocks: x the partition among those that become whole, y 2 * kv head + (1 for V), z the sequence;
// a thread a channel. Shared memory: [partition][head_dim + 4] in 16 bit, the pitch so that reads
// of a column meet at most two to a bank.
template <Format kFormat, int kBits>
__global__ void __launch_bounds__(kMostThreads)
    hack_quantise(const __grid_constant__ AppendArguments a) {
  auto& mins = shared<float[kMostThreads], "hack mins">();
  auto& scales = shared<float[kMostThreads], "hack scales">();
  auto* rows = dynamic_shared<unsigned short>();
  const DeviceLayout& layout = a.layout;
  const int sequence = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y) / 2;
  const bool is_value = blockIdx.y % 2 != 0;
  const Added added = added_of(a, sequence);
  const int part = layout.parts(added.first) + static_cast<int>(blockIdx.x);
  if (part >= layout.parts(added.last)) return;
  unsigned char* store =
      a.store + layout.sequence_bytes * static_cast<std::size_t>(static_cast<unsigned>(sequence));
  const int n = layout.partition, dim = layout.head_dim, pitch = dim + 4;
  const int thread = static_cast<int>(threadIdx.x);

  // head_dim threads read 8 rows at a time.
  const int chunks = dim / 8, row = thread / chunks, chunk = thread % chunks;
  const unsigned char* open =
      store + layout.exact(head) + (is_value ? layout.open_values : layout.open_keys);
  const void* source = is_value ? a.values : a.keys;
  constexpr int kLoads = 4;  // in flight
  for (int base = 0; base < n; base += 8 * kLoads) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slot = base + 8 * i + row, token = layout.sinks + part * n + slot;
      const std::size_t new_row =
          (static_cast<std::size_t>(added.source) + static_cast<unsigned>(token - added.first)) *
              static_cast<unsigned>(layout.kv_heads) +
          static_cast<unsigned>(head);
      const auto* from = token < added.first ? reinterpret_cast<const uint4*>(open) + slot * chunks
                                             : static_cast<const uint4*>(source) +
                                                   new_row * static_cast<unsigned>(chunks);
      loaded[i] = from[chunk];
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      auto* to = reinterpret_cast<uint2*>(rows + (base + 8 * i + row) * pitch + 8 * chunk);
      to[0] = uint2{loaded[i].x, loaded[i].y};
      to[1] = uint2{loaded[i].z, loaded[i].w};
    }
  }
  __syncthreads();

  // This thread's term and output have the same number: group * n + in_group. Values that share
  // the term's min and scale, one for each output; of an output, one for each term.
  const int in_group = thread & (n - 1), group_first = thread - in_group;
  const int along = is_value ? 1 : pitch, across = is_value ? pitch : 1;
  const unsigned short* of_term = rows + (is_value ? in_group * pitch + group_first : thread);
  const unsigned short* of_output = rows + (is_value ? thread : in_group * pitch + group_first);
  constexpr float kLevels = static_cast<float>((1 << kBits) - 1);

  float low = load_element<kFormat>(of_term, 0), high = low, zero = 0;
  for (int i = 0; i < n; ++i) {
    const float x = load_element<kFormat>(of_term, static_cast<unsigned>(i * along));
    low = fminf(low, x);
    high = fmaxf(high, x);
    zero += x * 0.0f;  // NaN unless all are finite
  }
  unsigned short min = kHackNanBits, scale = 0;
  if (zero == 0.0f) {
    min = below_in_bf16(low);
    scale = above_in_bf16((high - of_bf16(min)) / kLevels);
    if (!finite_bf16(min) || !finite_bf16(scale)) {
      min = kHackNanBits;
      scale = 0;
    }
  }
  mins[thread] = of_bf16(min);
  scales[thread] = of_bf16(scale);
  unsigned char* to = store + layout.quantised(part, head) + (is_value ? layout.values : 0u);
  reinterpret_cast<unsigned short*>(to + layout.mins)[thread] = min;
  reinterpret_cast<unsigned short*>(to + layout.scales)[thread] = scale;
  __syncthreads();

  constexpr int kPlanes = 8 / kBits;
  unsigned char* word = to + static_cast<unsigned>(group_first / n) * layout.square +
                        static_cast<unsigned>(in_group) / kHackTile * layout.tile +
                        static_cast<unsigned>(in_group) % kHackTile * 4;
  unsigned sum = 0;
  for (int term = 0; term < n; word += kHackUnit) {
    unsigned packed = 0;
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll
      for (int e = 0; e < 4; ++e, ++term) {
        const float x = load_element<kFormat>(of_output, static_cast<unsigned>(term * across));
        const float by = scales[group_first + term];
        // As hack_code: IEEE division, to nearest with ties to even, clamped.
        const float steps = rintf((x - mins[group_first + term]) / by);
        const unsigned code =
            by == 0.0f ? 0u : static_cast<unsigned>(fminf(fmaxf(steps, 0.0f), kLevels));
        packed |= code << (8 * e + kBits * plane);
        sum += code;
      }
    }
    *reinterpret_cast<unsigned*>(word) = packed;
  }
  if (layout.sum_bytes == 1) {
    (to + layout.sums)[thread] = static_cast<unsigned char>(sum);
  } else {
    reinterpret_cast<unsigned short*>(to + layout.sums)[thread] = static_cast<unsigned short>(sum);
  }
}

// Blocks: x a token that may stay in 16 bit (`sink_slots` for sinks, then those after the last
// whole partition), y unused, z the sequence.
inline constexpr int kCopyThreads = 128;
static __global__ void __launch_bounds__(kCopyThreads)
    hack_copy(const __grid_constant__ AppendArguments a, int sink_slots) {
  const DeviceLayout& layout = a.layout;
  const int sequence = static_cast<int>(blockIdx.z), slot = static_cast<int>(blockIdx.x);
  const Added added = added_of(a, sequence);
  unsigned char* store =
      a.store + layout.sequence_bytes * static_cast<std::size_t>(static_cast<unsigned>(sequence));
  const bool sink = slot < sink_slots;
  const int open = layout.sinks + layout.parts(added.last) * layout.partition;
  const int token = sink ? added.first + slot : max(added.first, open) + slot - sink_slots;
  if (token >= (sink ? min(added.last, layout.sinks) : added.last)) return;
  const int chunks = layout.head_dim / 8, chunk = static_cast<int>(threadIdx.x) % chunks;
  const unsigned offset = static_cast<unsigned>((sink ? token : token - open) * chunks + chunk);
  const std::size_t row =
      (static_cast<std::size_t>(added.source) + static_cast<unsigned>(token - added.first)) *
      static_cast<unsigned>(layout.kv_heads);
  for (int head = static_cast<int>(threadIdx.x) / chunks; head < layout.kv_heads;
       head += kCopyThreads / chunks) {
    const std::size_t from = (row + static_cast<unsigned>(head)) * static_cast<unsigned>(chunks) +
                             static_cast<unsigned>(chunk);
    const uint4 key = static_cast<const uint4*>(a.keys)[from];
    const uint4 value = static_cast<const uint4*>(a.values)[from];
    unsigned char* to = store + layout.exact(head);
    reinterpret_cast<uint4*>(to + (sink ? 0u : layout.open_keys))[offset] = key;
    reinterpret_cast<uint4*>(to + (sink ? layout.sink_values : layout.open_values))[offset] = value;
  }
}

}  // namespace kvlane::kernels::cuda::hack
