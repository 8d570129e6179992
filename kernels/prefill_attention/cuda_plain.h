#pragma once
// Prefill attention in fp32: no tensor core multiplies fp32 exactly, so plain FMAs. 64 rows of a
// tile in shared memory, K and V in turn in one buffer. Eight neighbouring lanes have four rows,
// 16 apart: keys (Q K) and channels (P V) of a row are spread over them. Rows are 16 bytes longer
// than their elements, so that four rows side by side lie in different banks; 16 FMAs come of each
// 16 bytes that are read.

#include "kernels/prefill_attention/cuda_rows.h"

namespace kvlane::kernels::cuda::prefill {

template <int kDim>
struct PlainShape {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAnSm = kDim == 64 ? 2 : 1;  // with 100 KB an SM
  static constexpr int kRows = 64, kRowsALane = 4, kRowStride = kRows / kRowsALane;
  static constexpr int kKeys = kDim == 256 ? 16 : 32;
  static constexpr int kKeysALane = kKeys / 8;
  static constexpr int kPitch = kDim + 4, kWeightPitch = kKeys + 4;  // floats
  static constexpr std::size_t kSharedBytes =
      static_cast<std::size_t>((kRows + kKeys) * kPitch + kRows * kWeightPitch) * sizeof(float);
};

__device__ __forceinline__ float4 four_at(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

template <int kDim>
__global__ void __launch_bounds__(PlainShape<kDim>::kThreads, PlainShape<kDim>::kBlocksAnSm)
    prefill_plain(const __grid_constant__ Arguments a) {
  using S = PlainShape<kDim>;
  const int x = static_cast<int>(blockIdx.x);
  const Rows rows =
      rows_of_block<S::kRows, S::kKeys, S::kThreads>(a, a.tiles - 1 - x / a.splits, x % a.splits);
  if (rows.count == 0) return;
  auto* query = dynamic_shared<float>();
  float* buffer = query + S::kRows * S::kPitch;
  float* weights = buffer + S::kKeys * S::kPitch;
  const int first = static_cast<int>(threadIdx.x) / 8, part = static_cast<int>(threadIdx.x) % 8;
  const int sequence = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  constexpr int kLoads = kDim / 4;  // of 16 bytes, a row

  for (int i = static_cast<int>(threadIdx.x); i < S::kRows * kLoads; i += S::kThreads) {
    const int r = i / kLoads, load = i % kLoads;
    const bool valid = r < rows.count;
    async_copy_16(
        query + r * S::kPitch + 4 * load,
        static_cast<const float4*>(a.query) + (valid ? rows.tensor_row(r) : 0) * kLoads + load,
        valid);
  }
  async_copy_commit();
  const auto copy = [&](int step, int of) {  // of 0: K, 1: V
    for (int i = static_cast<int>(threadIdx.x); i < S::kKeys * kLoads; i += S::kThreads) {
      const int key = i / kLoads, load = i % kLoads;
      const bool valid = step + key < rows.key_count;
      const std::size_t row = valid ? a.kv.row(sequence, kv_head, rows.first_key + step + key) : 0;
      async_copy_16(buffer + key * S::kPitch + 4 * load,
                    static_cast<const float4*>(a.kv.rows) +
                        (row * 2 + static_cast<unsigned>(of)) * kLoads + load,
                    valid);
    }
    async_copy_commit();
    async_copy_wait<0>();
  };

  float values[S::kRowsALane][kDim / 8], top[S::kRowsALane], sum[S::kRowsALane];
  int position[S::kRowsALane];
#pragma unroll
  for (int r = 0; r < S::kRowsALane; ++r) {
    position[r] = rows.position(first + r * S::kRowStride);
    top[r] = minus_infinity();
    sum[r] = 0;
#pragma unroll
    for (int e = 0; e < kDim / 8; ++e) values[r][e] = 0;
  }

  for (int step = 0; step < rows.key_count; step += S::kKeys) {
    const int base = rows.first_key + step;
    copy(step, 0);
    __syncthreads();
    float logits[S::kRowsALane][S::kKeysALane] = {};
#pragma unroll 4
    for (int c = 0; c < kDim; c += 4) {
      float4 key[S::kKeysALane];
#pragma unroll
      for (int k = 0; k < S::kKeysALane; ++k) {
        key[k] = four_at(buffer + (part + 8 * k) * S::kPitch + c);
      }
#pragma unroll
      for (int r = 0; r < S::kRowsALane; ++r) {
        const float4 q = four_at(query + (first + r * S::kRowStride) * S::kPitch + c);
#pragma unroll
        for (int k = 0; k < S::kKeysALane; ++k) {
          logits[r][k] += q.x * key[k].x + q.y * key[k].y + q.z * key[k].z + q.w * key[k].w;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < S::kRowsALane; ++r) {
      float most = top[r];
#pragma unroll
      for (int k = 0; k < S::kKeysALane; ++k) {
        const int key = base + part + 8 * k;
        const bool sees = key <= position[r] && key >= rows.oldest(position[r]);
        logits[r][k] = sees ? logit_of(a, logits[r][k]) : minus_infinity();
        most = fmaxf(most, logits[r][k]);
      }
      most = warp_max<8>(most);
      const float by = rescale(top[r], most);
      top[r] = most;
      sum[r] *= by;
#pragma unroll
      for (int e = 0; e < kDim / 8; ++e) values[r][e] *= by;
      const float reference = most == minus_infinity() ? 0.0f : most;
#pragma unroll
      for (int k = 0; k < S::kKeysALane; ++k) {
        const float weight = exp2_approx(logits[r][k] - reference);
        sum[r] += weight;
        weights[(first + r * S::kRowStride) * S::kWeightPitch + part + 8 * k] = weight;
      }
    }
    __syncthreads();  // nobody reads K any more; weights are written
    copy(step, 1);
    __syncthreads();
    const int most_keys = min(S::kKeys, rows.key_count - step);
#pragma unroll 2
    for (int k = 0; k < most_keys; ++k) {
      float weight[S::kRowsALane];
      bool sees[S::kRowsALane];  // a masked weight of 0 times a NaN would not be 0
#pragma unroll
      for (int r = 0; r < S::kRowsALane; ++r) {
        weight[r] = weights[(first + r * S::kRowStride) * S::kWeightPitch + k];
        sees[r] = base + k <= position[r] && base + k >= rows.oldest(position[r]);
      }
#pragma unroll
      for (int c = 0; c < kDim / 32; ++c) {
        const float4 v = four_at(buffer + k * S::kPitch + 32 * c + 4 * part);
#pragma unroll
        for (int r = 0; r < S::kRowsALane; ++r) {
          if (!sees[r]) continue;
          values[r][4 * c] += weight[r] * v.x;
          values[r][4 * c + 1] += weight[r] * v.y;
          values[r][4 * c + 2] += weight[r] * v.z;
          values[r][4 * c + 3] += weight[r] * v.w;
        }
      }
    }
    __syncthreads();  // before the next K
  }
  if (rows.key_count == 0) async_copy_wait<0>();

#pragma unroll
  for (int r = 0; r < S::kRowsALane; ++r) {
    const int row = first + r * S::kRowStride;
    const float all = warp_sum<8>(sum[r]);
    if (row >= rows.count) continue;
    float4* to = nullptr;
    float by = 1;
    if (a.splits == 1) {
      to = static_cast<float4*>(a.out) + rows.tensor_row(row) * kLoads + part;
      by = 1.0f / all;  // all logits -infinity: 0 / 0, NaN
    } else {
      const std::size_t at = rows.partial + static_cast<unsigned>(row);
      if (part == 0) a.partial_state[at] = float2{top[r], all};
      to = reinterpret_cast<float4*>(a.partial) + at * kLoads + part;
    }
#pragma unroll
    for (int c = 0; c < kDim / 32; ++c) {
      to[8 * c] = float4{values[r][4 * c] * by, values[r][4 * c + 1] * by,
                         values[r][4 * c + 2] * by, values[r][4 * c + 3] * by};
    }
  }
}

}  // namespace kvlane::kernels::cuda::prefill
