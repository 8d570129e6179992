#pragma once
// Sums, maxima and scans over a warp. Results are the same in every lane where not said otherwise.

#include "kernels/common/device.h"

namespace kvlane::kernels::cuda {

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / kWarp; }

// Over groups of kLanes neighbouring lanes, a power of two.
template <int kLanes = kWarp, typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

template <int kLanes = kWarp>
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}

// Of the lanes up to and with this one.
template <typename T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const T below = __shfl_up_sync(kWholeWarp, value, static_cast<unsigned>(step));
    if (lane_of_warp() >= step) value += below;
  }
  return value;
}

}  // namespace kvlane::kernels::cuda
