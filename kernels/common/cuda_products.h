#pragma once
// Products of many short vectors, each with the matrix of its kv head, in fp32: what HATA's codes
// and InfiniGen's projection share. Tensor cores have no fp32 and a sign needs it.
//
// A block of four warps takes a tile of vectors; they lie as floats in shared memory, a chunk of
// their elements at a time. A lane has 8 vectors x 4 columns of sums in registers; for 4 elements
// it takes 4 x 16 bytes of the matrix (64 in flight; L1 or L2: all blocks of a head read the same)
// and 8 x 16 of the vectors for 128 fused multiply-adds. Where there are few vectors (decoding)
// the four warps share 8 x kVectorLanes vectors and each takes a quarter of the elements.

#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_format.h"
#include "kernels/common/cuda_kv.h"

namespace kvlane::kernels::cuda {

// kColumnLanes lanes of a warp lie side by side over columns, the others over vectors.
template <Format kFormat, int kColumnLanes, bool kShareElements>
struct Products {
  static constexpr int kWarps = 4, kThreads = kWarps * kWarp;
  static constexpr int kVectorLanes = kWarp / kColumnLanes;
  static constexpr int kColumns = 4 * kColumnLanes;  // of a block
  static constexpr int kOwn = 8;                     // vectors a lane
  static constexpr int kSplit = kShareElements ? kWarps : 1;
  static constexpr int kTile = kOwn * kVectorLanes * (kWarps / kSplit);  // vectors a block
  static constexpr int kChunk = kTile > 32 ? 32 : 128;                   // elements at a time
  static constexpr int kPitch = kChunk + 4;      // lanes of a column read other banks
  static constexpr int kFinish = kOwn / kSplit;  // vectors that a lane finishes
  static constexpr int kPer = kPerLoad<kFormat>;
  static constexpr int kBytesInFlight = 64;
  using Tile = float[kTile][kPitch];
  using Parts = float4[kWarps][kOwn][kWarp];  // where warps share the elements, at the end
  static constexpr std::size_t kSharedBytes = kShareElements && sizeof(Parts) > sizeof(Tile)
                                                  ? sizeof(Parts)
                                                  : sizeof(Tile);

  // Vectors of one kv head: the i-th is head i % group of token i / group.
  struct Vectors {
    const void* x;
    int count, head_dim, heads, first_head;
    FastDivide group;
    bool aligned;  // all rows start at multiples of 16 bytes and are multiples of them long
    __device__ __forceinline__ std::size_t row(int i) const {
      const int token = group.quotient(i);
      return static_cast<std::size_t>(token) * static_cast<unsigned>(heads) +
             static_cast<unsigned>(first_head + (i - token * group.divisor()));
    }
  };

  // Elements [begin, begin + kChunk) of the tile's vectors, zeros where there are none.
  static __device__ __forceinline__ void fill(Tile& tile, const Vectors& v, int first, int begin) {
    if (v.aligned) {
      constexpr int kLoadsARow = kChunk / kPer, kLoads = kTile * kLoadsARow / kThreads;
      static_assert(kLoads >= 1);
      uint4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int item = static_cast<int>(threadIdx.x) + j * kThreads;
        const int vector = first + item / kLoadsARow, at = begin + item % kLoadsARow * kPer;
        raw[j] = uint4{0, 0, 0, 0};
        if (vector < v.count && at < v.head_dim) {
          const std::size_t element =
              v.row(vector) * static_cast<unsigned>(v.head_dim) + static_cast<unsigned>(at);
          raw[j] = *reinterpret_cast<const uint4*>(static_cast<const unsigned char*>(v.x) +
                                                   element * kBytes<kFormat>);
        }
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int item = static_cast<int>(threadIdx.x) + j * kThreads;
        float values[kPer];
        unpack<kFormat>(raw[j], values);
        float* to = &tile[item / kLoadsARow][item % kLoadsARow * kPer];
#pragma unroll
        for (int e = 0; e < kPer; e += 4) {
          *reinterpret_cast<float4*>(to + e) =
              float4{values[e], values[e + 1], values[e + 2], values[e + 3]};
        }
      }
    } else {
      for (int item = static_cast<int>(threadIdx.x); item < kTile * kChunk; item += kThreads) {
        const int vector = first + item / kChunk, at = begin + item % kChunk;
        float value = 0;
        if (vector < v.count && at < v.head_dim) {
          value = load_element<kFormat>(
              v.x, v.row(vector) * static_cast<unsigned>(v.head_dim) + static_cast<unsigned>(at));
        }
        tile[item / kChunk][item % kChunk] = value;
      }
    }
  }

  static __device__ __forceinline__ int column_lane() { return lane_of_warp() % kColumnLanes; }
  static __device__ __forceinline__ int vector_lane() { return lane_of_warp() / kColumnLanes; }
  // The i-th vector of a lane, counted in the tile.
  static __device__ __forceinline__ int own(int i) {
    const int of_warp = vector_lane() + i * kVectorLanes;
    return kShareElements ? of_warp : warp_of_block() * kOwn * kVectorLanes + of_warp;
  }
  // The i-th that it finishes.
  static __device__ __forceinline__ int finished(int i) {
    return kShareElements ? own(i * kWarps + warp_of_block()) : own(i);
  }

  // All threads of a block: vectors `first` and on. weights(k) are a lane's four columns of row k;
  // look(tile, elements) sees each chunk; finish(i, sums): the lane's columns of vector finished(i)
  // of the tile (called for those past the count too).
  template <typename Weights, typename Look, typename Finish>
  static __device__ __forceinline__ void run(const Vectors& v, int first, Weights weights,
                                             Look look, Finish finish) {
    auto& memory = shared<float4[kSharedBytes / sizeof(float4)], "products">();
    auto& tile = reinterpret_cast<Tile&>(memory);
    float4 sums[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sums[i] = float4{0, 0, 0, 0};
    for (int begin = 0; begin < v.head_dim; begin += kChunk) {
      if (begin > 0) __syncthreads();
      fill(tile, v, first, begin);
      __syncthreads();
      look(tile);
      constexpr int kPart = kChunk / kSplit;
      const int from = kShareElements ? warp_of_block() * kPart : 0;
      const int to = min(from + kPart, v.head_dim - begin);
#pragma unroll 1
      for (int k = from; k < to; k += 4) {
        float4 w[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          // Rows past the last meet zeros, but must not be read.
          w[e] = k + e < to ? weights(begin + k + e) : float4{0, 0, 0, 0};
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const float4 x = *reinterpret_cast<const float4*>(&tile[own(i)][k]);
          const float element[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sums[i].x += element[e] * w[e].x;
            sums[i].y += element[e] * w[e].y;
            sums[i].z += element[e] * w[e].z;
            sums[i].w += element[e] * w[e].w;
          }
        }
      }
    }
    if constexpr (kShareElements) {
      auto& parts = reinterpret_cast<Parts&>(memory);
      __syncthreads();  // the tile is read no more
#pragma unroll
      for (int i = 0; i < kOwn; ++i) parts[warp_of_block()][i][lane_of_warp()] = sums[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kFinish; ++i) {
        float4 sum{0, 0, 0, 0};
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const float4 part = parts[w][i * kWarps + warp_of_block()][lane_of_warp()];
          sum = float4{sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
        }
        finish(i, sum);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) finish(i, sums[i]);
    }
  }
};

}  // namespace kvlane::kernels::cuda
