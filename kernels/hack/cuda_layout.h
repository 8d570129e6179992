#pragma once
// layout.h in device code.

#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_format.h"
#include "kernels/hack/layout.h"

namespace kvlane::kernels::cuda::hack {

struct DeviceLayout {
  DeviceLayout() = default;
  explicit DeviceLayout(const HackShape& shape) {
    const HackLayout from(shape);
    partition = shape.partition;
    sinks = shape.sinks;
    kv_heads = shape.kv_heads;
    head_dim = shape.head_dim;
    groups = shape.head_dim / shape.partition;
    capacity = shape.capacity;
    sum_bytes = static_cast<int>(from.sum_bytes);
    sink_values = static_cast<unsigned>(from.sink_values);
    open_keys = static_cast<unsigned>(from.open_keys);
    open_values = static_cast<unsigned>(from.open_values);
    exact_head = static_cast<unsigned>(from.exact_head);
    square = static_cast<unsigned>(from.square);
    tile = static_cast<unsigned>(from.tile_bytes());
    mins = static_cast<unsigned>(from.mins);
    scales = static_cast<unsigned>(from.scales);
    sums = static_cast<unsigned>(from.sums);
    values = static_cast<unsigned>(from.values);
    quantised_head = static_cast<unsigned>(from.quantised_head);
    sequence_bytes = hack_sequence_bytes(shape);
    while ((1 << partition_log2) < partition) ++partition_log2;
  }

  int partition = 0, partition_log2 = 0, sinks = 0, kv_heads = 0, head_dim = 0, groups = 0;
  int capacity = 0, sum_bytes = 0;
  unsigned sink_values = 0, open_keys = 0, open_values = 0, exact_head = 0;
  unsigned square = 0, tile = 0, mins = 0, scales = 0, sums = 0, values = 0, quantised_head = 0;
  std::size_t sequence_bytes = 0;

  __device__ __forceinline__ std::size_t exact(int head) const {
    return static_cast<std::size_t>(exact_head) * static_cast<unsigned>(head);
  }
  __device__ __forceinline__ std::size_t quantised(int part, int head) const {
    return exact(kv_heads) + (static_cast<std::size_t>(part) * static_cast<unsigned>(kv_heads) +
                              static_cast<unsigned>(head)) *
                                 quantised_head;
  }
  // Whole partitions of a sequence of n tokens.
  __device__ __forceinline__ int parts(int tokens) const {
    return max(0, tokens - sinks) >> partition_log2;
  }
};

}  // namespace kvlane::kernels::cuda::hack
