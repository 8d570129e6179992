#pragma once
// Prefill attention on tensor cores, 16-bit formats: mma.sync m16n8k16 with fp32 sums. A warp has
// kRowTiles x 16 rows of the tile and all keys, so that the softmax stays within four lanes.
//
// Shared memory: rows of kDim elements in 16-byte chunks; chunk c of row r is at c ^ (r % 8), so
// that the eight rows that ldmatrix reads at once lie in different banks. One buffer for K and one
// for V: V of a step is on its way during Q K, K of the next one during softmax and P V.

#include "kernels/common/cuda_pack.h"
#include "kernels/prefill_attention/cuda_rows.h"

namespace kvlane::kernels::cuda::prefill {

// Tiles by head dimension: registers bound them (values of 32 x 128 or 16 x 256 take 128 a thread)
// and 99 KB of shared memory (8.6 and 8.9), so that every GPU has 8 warps a multiprocessor.
template <int kDim>
struct TensorShape {
  static constexpr int kWarps = kDim == 256 ? 8 : 4;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kBlocksAnSm = kDim == 256 ? 1 : 2;
  static constexpr int kRowTiles = kDim == 256 ? 1 : 2;  // of 16 rows, a warp
  static constexpr int kRows = kWarps * kRowTiles * 16;
  static constexpr int kKeys = kDim == 64 ? 64 : 32;  // a step
  static constexpr int kChunks = kDim / 8;            // of 16 bytes, a row
  static constexpr int kStride = kThreads / kChunks;  // rows apart: copies of a thread
  static constexpr int kCopies = kKeys / kStride;     // of K, of V, a thread and step
  static constexpr std::size_t kSharedBytes =
      static_cast<std::size_t>(kRows + 2 * kKeys) * kDim * 2;
};

// Rows of kDim 16-bit elements in shared memory.
template <int kDim>
struct Tile {
  uint4* chunks;
  __device__ __forceinline__ uint4* at(int row, int chunk) const {
    return chunks + row * (kDim / 8) + (chunk ^ (row & 7));
  }
};

// What a warp has of the result: C fragments, and maximum and sum (of this lane's keys) of its rows
// lane / 4 and lane / 4 + 8 of each row tile.
template <int kDim>
struct WarpResult {
  static constexpr int kRowTiles = TensorShape<kDim>::kRowTiles;
  float values[kRowTiles][kDim / 8][4];
  float top[kRowTiles][2], sum[kRowTiles][2];
};

// logits = Q K, in powers of two.
template <Format kFormat, int kDim>
__device__ __forceinline__ void query_times_keys(
    const Arguments& a, const Tile<kDim>& query, const Tile<kDim>& keys, int first_row,
    float (&logits)[TensorShape<kDim>::kRowTiles][TensorShape<kDim>::kKeys / 8][4]) {
  using S = TensorShape<kDim>;
  const int lane = lane_of_warp();
#pragma unroll
  for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) logits[r][n][i] = 0;
    }
  }
#pragma unroll 2
  for (int k = 0; k < kDim / 16; ++k) {
    std::uint32_t q[S::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r) {
      load_matrix_x4(q[r], query.at(first_row + 16 * r + lane % 16, 2 * k + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; n += 2) {
      std::uint32_t b[4];
      load_matrix_x4(b, keys.at(8 * (n + lane / 16) + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int r = 0; r < S::kRowTiles; ++r) {
        multiply<kFormat>(logits[r][n], q[r], {b[0], b[1]});
        multiply<kFormat>(logits[r][n + 1], q[r], {b[2], b[3]});
      }
    }
  }
#pragma unroll
  for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) logits[r][n][i] = logit_of(a, logits[r][n][i]);
    }
  }
}

// Logits become weights; what was added up before is scaled.
template <int kDim>
__device__ __forceinline__ void weigh(
    WarpResult<kDim>& result,
    float (&logits)[TensorShape<kDim>::kRowTiles][TensorShape<kDim>::kKeys / 8][4]) {
  using S = TensorShape<kDim>;
  float by[S::kRowTiles][2], reference[S::kRowTiles][2];
  bool risen = false;
#pragma unroll
  for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = result.top[r][half];
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n) {
        top = fmaxf(top, fmaxf(logits[r][n][2 * half], logits[r][n][2 * half + 1]));
      }
      top = warp_max<4>(top);
      risen |= top != result.top[r][half];
      by[r][half] = rescale(result.top[r][half], top);
      result.top[r][half] = top;
      // Nothing but -infinity so far: weights of 0, not exp2(-inf + inf).
      reference[r][half] = top == minus_infinity() ? 0.0f : top;
    }
  }
  // Maxima rise in the first steps and seldom later.
  if (__any_sync(kWholeWarp, risen)) {
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) result.values[r][n][i] *= by[r][i / 2];
      }
      result.sum[r][0] *= by[r][0];
      result.sum[r][1] *= by[r][1];
    }
  }
#pragma unroll
  for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        logits[r][n][i] = exp2_approx(logits[r][n][i] - reference[r][i / 2]);
        result.sum[r][i / 2] += logits[r][n][i];
      }
    }
  }
}

// result += P V
template <Format kFormat, int kDim>
__device__ __forceinline__ void add_values(
    WarpResult<kDim>& result, const Tile<kDim>& values,
    const float (&weights)[TensorShape<kDim>::kRowTiles][TensorShape<kDim>::kKeys / 8][4]) {
  using S = TensorShape<kDim>;
  const int lane = lane_of_warp();
#pragma unroll
  for (int k = 0; k < S::kKeys / 16; ++k) {
    std::uint32_t p[S::kRowTiles][4];
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&w)[4] = weights[r][2 * k + i / 2];
        p[r][i] = pack_pair<kFormat>(w[i % 2 * 2], w[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      std::uint32_t b[4];
      load_matrix_x4_transposed(b, values.at(16 * k + lane % 16, n + lane / 16));
#pragma unroll
      for (int r = 0; r < S::kRowTiles; ++r) {
        multiply<kFormat>(result.values[r][n], p[r], {b[0], b[1]});
        multiply<kFormat>(result.values[r][n + 1], p[r], {b[2], b[3]});
      }
    }
  }
}

// A product of a masked weight, 0, with a NaN or infinite value would reach queries that do not see
// it. In steps with masked keys such values are added here, to the queries that see them, and
// removed from shared memory before add_values. A weight above 0 times infinity is infinity.
template <Format kFormat, int kDim>
__device__ __forceinline__ void add_not_finite(const Rows& rows, WarpResult<kDim>& result,
                                               const Tile<kDim>& values, int base, int keys,
                                               int first_row) {
  const int t = lane_of_warp() % 4;
  for (int j = 0; j < keys; ++j) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const auto pair = reinterpret_cast<const std::uint32_t*>(values.at(j, n))[t];
      const bool low = low_not_finite<kFormat>(pair), high = high_not_finite<kFormat>(pair);
      if (!low && !high) continue;
      const float2 value = unpack_pair<kFormat>(pair);
#pragma unroll
      for (int r = 0; r < WarpResult<kDim>::kRowTiles; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int position = rows.position(first_row + 16 * r + 8 * half + lane_of_warp() / 4);
          if (base + j > position || base + j < rows.oldest(position)) continue;
          if (low) result.values[r][n][2 * half] += value.x;
          if (high) result.values[r][n][2 * half + 1] += value.y;
        }
      }
    }
  }
}

template <Format kFormat>
__device__ __forceinline__ bool any_not_finite(const uint4& chunk) {
  return low_not_finite<kFormat>(chunk.x) || high_not_finite<kFormat>(chunk.x) ||
         low_not_finite<kFormat>(chunk.y) || high_not_finite<kFormat>(chunk.y) ||
         low_not_finite<kFormat>(chunk.z) || high_not_finite<kFormat>(chunk.z) ||
         low_not_finite<kFormat>(chunk.w) || high_not_finite<kFormat>(chunk.w);
}
template <Format kFormat>
__device__ __forceinline__ std::uint32_t finite_part(std::uint32_t pair) {
  return (low_not_finite<kFormat>(pair) ? 0 : pair & 0xffffu) |
         (high_not_finite<kFormat>(pair) ? 0 : pair & 0xffff0000u);
}

// Divides and writes the rows, or leaves them to merge_splits. `staging`: the warp's own rows of
// the query, which nobody reads any more.
template <Format kFormat, int kDim>
__device__ __forceinline__ void write_rows(const Rows& rows, const WarpResult<kDim>& result,
                                           const Tile<kDim>& staging, int first_row) {
  const Arguments& a = *rows.arguments;
  const int lane = lane_of_warp(), t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int r = 0; r < WarpResult<kDim>::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * r + 8 * half + lane / 4;
      const float sum = warp_sum<4>(result.sum[r][half]);
      if (a.splits == 1) {
        const float by = 1.0f / sum;  // all logits -infinity: 0 / 0, NaN
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          reinterpret_cast<std::uint32_t*>(staging.at(row, n))[t] = pack_pair<kFormat>(
              result.values[r][n][2 * half] * by, result.values[r][n][2 * half + 1] * by);
        }
      } else if (row < rows.count) {
        const std::size_t at = rows.partial + static_cast<unsigned>(row);
        if (t == 0) a.partial_state[at] = float2{result.top[r][half], sum};
        auto* to = reinterpret_cast<float2*>(a.partial + at * kDim) + t;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          to[4 * n] = float2{result.values[r][n][2 * half], result.values[r][n][2 * half + 1]};
        }
      }
    }
  }
  if (a.splits > 1) return;
  __syncwarp();
  constexpr int kChunks = kDim / 8, kAtOnce = kWarp / kChunks;
#pragma unroll 4
  for (int i = lane / kChunks; i < 16 * WarpResult<kDim>::kRowTiles; i += kAtOnce) {
    const int row = first_row + i, chunk = lane % kChunks;
    if (row >= rows.count) continue;
    static_cast<uint4*>(a.out)[rows.tensor_row(row) * kChunks + static_cast<unsigned>(chunk)] =
        *staging.at(row, chunk);
  }
}

template <Format kFormat, int kDim>
__global__ void __launch_bounds__(TensorShape<kDim>::kThreads, TensorShape<kDim>::kBlocksAnSm)
    prefill_tensor(const __grid_constant__ Arguments a) {
  using S = TensorShape<kDim>;
  const int x = static_cast<int>(blockIdx.x);
  const Rows rows =
      rows_of_block<S::kRows, S::kKeys, S::kThreads>(a, a.tiles - 1 - x / a.splits, x % a.splits);
  if (rows.count == 0) return;
  auto* memory = dynamic_shared<uint4>();
  const Tile<kDim> query{memory}, keys{memory + S::kRows * S::kChunks},
      values{memory + (S::kRows + S::kKeys) * S::kChunks};
  const int lane = lane_of_warp(), first_row = warp_of_block() * S::kRowTiles * 16;
  const int copy_row = static_cast<int>(threadIdx.x) / S::kChunks;
  const int copy_chunk = static_cast<int>(threadIdx.x) % S::kChunks;
  const int sequence = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const auto* kv = static_cast<const uint4*>(a.kv.rows);

  // Row numbers in 32 bits: 2^32 rows of 256 bytes are 1 TB.
  unsigned cache_row[S::kCopies];
  const auto look_up = [&](int step) {
#pragma unroll
    for (int i = 0; i < S::kCopies; ++i) {
      const int key = step + copy_row + i * S::kStride;
      cache_row[i] = key < rows.key_count
                         ? static_cast<unsigned>(a.kv.row(sequence, kv_head, rows.first_key + key))
                         : 0;
    }
  };
  const auto copy = [&](const Tile<kDim>& to, int step, int part) {  // part 0: K, 1: V
#pragma unroll
    for (int i = 0; i < S::kCopies; ++i) {
      const int row = copy_row + i * S::kStride;
      async_copy_16(to.at(row, copy_chunk),
                    kv +
                        (static_cast<std::size_t>(cache_row[i]) * 2 + static_cast<unsigned>(part)) *
                            S::kChunks +
                        copy_chunk,
                    step + row < rows.key_count);
    }
    async_copy_commit();
  };

  for (int r = copy_row; r < S::kRows; r += S::kStride) {
    const bool valid = r < rows.count;
    async_copy_16(query.at(r, copy_chunk),
                  static_cast<const uint4*>(a.query) +
                      (valid ? rows.tensor_row(r) : 0) * S::kChunks + copy_chunk,
                  valid);
  }
  look_up(0);
  copy(keys, 0, 0);

  WarpResult<kDim> result;
#pragma unroll
  for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      result.top[r][half] = minus_infinity();
      result.sum[r][half] = 0;
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) result.values[r][n][i] = 0;
    }
  }
  // All rows see the keys from the last row's oldest to the first row's own.
  const int all_from = rows.oldest(rows.position(rows.count - 1)), all_to = rows.position(0);

  for (int step = 0; step < rows.key_count; step += S::kKeys) {
    const int base = rows.first_key + step;
    const bool masked = base < all_from || base + S::kKeys - 1 > all_to;
    async_copy_wait<0>();
    __syncthreads();  // K is there for all, and nobody reads the last V
    copy(values, step, 1);
    look_up(step + S::kKeys);
    float logits[S::kRowTiles][S::kKeys / 8][4];
    query_times_keys<kFormat>(a, query, keys, first_row, logits);
    if (masked) {
#pragma unroll
      for (int r = 0; r < S::kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int position = rows.position(first_row + 16 * r + i / 2 * 8 + lane / 4);
          const int oldest = rows.oldest(position);
#pragma unroll
          for (int n = 0; n < S::kKeys / 8; ++n) {
            const int key = base + 8 * n + 2 * (lane % 4) + i % 2;
            if (key > position || key < oldest) logits[r][n][i] = minus_infinity();
          }
        }
      }
    }
    async_copy_wait<0>();
    bool special = false;
    if (masked) {
#pragma unroll
      for (int i = 0; i < S::kCopies; ++i) {
        special |= any_not_finite<kFormat>(*values.at(copy_row + i * S::kStride, copy_chunk));
      }
      special = __syncthreads_or(special ? 1 : 0) != 0;
    } else {
      __syncthreads();  // V is there for all, and nobody reads this K
    }
    if (step + S::kKeys < rows.key_count) copy(keys, step + S::kKeys, 0);
    weigh(result, logits);
    if (special) {
      add_not_finite<kFormat>(rows, result, values, base, S::kKeys, first_row);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < S::kCopies; ++i) {
        uint4& chunk = *values.at(copy_row + i * S::kStride, copy_chunk);
        chunk = uint4{finite_part<kFormat>(chunk.x), finite_part<kFormat>(chunk.y),
                      finite_part<kFormat>(chunk.z), finite_part<kFormat>(chunk.w)};
      }
      __syncthreads();
    }
    add_values<kFormat>(result, values, logits);
  }
  if (rows.key_count == 0) async_copy_wait<0>();
  write_rows<kFormat>(rows, result, query, first_row);
}

}  // namespace kvlane::kernels::cuda::prefill
