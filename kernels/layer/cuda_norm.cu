// RMSNorm, a block a row.
//
// Versions
//   1. two looks at the row, one for the sum of squares, one to scale: twice the reads, from L2.
//   2. (here) what a thread reads first, four 16-byte loads, stays in its registers: rows of up to
//      8192 elements of 16 bits are read once, longer ones look at their rest again.
// Blocks are as small as the row allows (32 threads for a head of 128), so that heads are
// normalised at full occupancy too. Squares that leave fp32's range are summed again, scaled by a
// power of two: the norm itself is in range.
//
// Bytes: the row read and written, weights from L2. In flight: 64 a thread, 3 blocks of 256: 48 KiB
// an SM, above the 18 KB that an H100 needs (700 ns x 3.35 TB/s / 132).
// Expected at 80 % of peak: 4096 rows x 8192 in bf16, 134 MB: 50 us on an H100, 0.19 ms on an L20
// (864 GB/s). Not measured.

#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/launch.h"
#include "kernels/layer/cuda.h"
#include "kernels/layer/cuda_elements.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kMaxThreads = 256, kMaxWarps = kMaxThreads / kWarp, kBlocksAnSm = 3;
constexpr int kLoads = 4;

// Over the block; all threads call it and get the same. `combine` is associative.
template <typename Combine>
__device__ __forceinline__ float over_block(float value, Combine combine) {
  auto& parts = shared<float[kMaxWarps], "norm parts">();
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  __syncthreads();  // the last result has been read
  if (lane_of_warp() == 0) parts[warp_of_block()] = value;
  __syncthreads();
  value = parts[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) value = combine(value, parts[w]);
  return value;
}

// A row as its threads see it: body(position of the first element, values, how many of them).
template <Format kFormat, bool kAligned>
struct Row {
  static constexpr int kPer = kAligned ? kPerLoad<kFormat> : 1;
  const void* x;
  std::size_t begin;
  int width;
  float held[kLoads][kPer];  // of the first kLoads pieces

  __device__ __forceinline__ void load(int at, float (&values)[kPer]) const {
    if constexpr (kAligned) {
      unpack<kFormat>(load_row<kFormat>(x, begin + static_cast<unsigned>(at)), values);
    } else {
      values[0] = load_element<kFormat>(x, begin + static_cast<unsigned>(at));
    }
  }
  __device__ __forceinline__ int place(int j) const {
    return (static_cast<int>(threadIdx.x) + j * static_cast<int>(blockDim.x)) * kPer;
  }
  // All of them before the first is used; past the end the last piece again, which each() skips.
  __device__ __forceinline__ void hold() {
    if constexpr (kAligned) {
      uint4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        raw[j] = load_row<kFormat>(x, begin + static_cast<unsigned>(min(place(j), width - kPer)));
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) unpack<kFormat>(raw[j], held[j]);
    } else {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) load(min(place(j), width - 1), held[j]);
    }
  }
  template <typename Body>
  __device__ __forceinline__ void each(Body body) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (place(j) < width) body(place(j), held[j]);
    }
    for (int at = place(kLoads); at < width; at += static_cast<int>(blockDim.x) * kPer) {
      float values[kPer];
      load(at, values);
      body(at, values);
    }
  }
};

template <Format kFormat, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAnSm) rms_norm_row(RmsNorm args) {
  using R = Row<kFormat, kAligned>;
  R row;
  row.x = args.x;
  row.begin = static_cast<std::size_t>(blockIdx.x) * static_cast<unsigned>(args.width);
  row.width = args.width;
  row.hold();
  const auto sum_of_squares = [&](float scale) {
    float sum = 0;
    row.each([&](int, const float(&x)[R::kPer]) {
#pragma unroll
      for (int e = 0; e < R::kPer; ++e) sum += (x[e] * scale) * (x[e] * scale);
    });
    return over_block(sum, [](float a, float b) { return a + b; });
  };
  float scale = 1;
  double squares = static_cast<double>(sum_of_squares(1));
  // Squares lost below 2^-126 matter where the sum is small; infinity and NaN come here too.
  if (!(squares >= 0x1p-80 && squares <= 0x1p127)) {
    float largest = 0;
    row.each([&](int, const float(&x)[R::kPer]) {
#pragma unroll
      for (int e = 0; e < R::kPer; ++e) largest = fmaxf(largest, fabsf(x[e]));
    });
    largest = over_block(largest, [](float a, float b) { return fmaxf(a, b); });
    // 2^-e for largest = 2^e x 1.m, within what a float holds.
    const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    if (exponent < 128) {
      scale = __uint_as_float(static_cast<unsigned>(max(-126, min(126, -exponent)) + 127) << 23);
      squares = static_cast<double>(sum_of_squares(scale));
    }
  }
  // Of scaled elements: 1 / sqrt(mean + epsilon scale^2).
  const double scaled_epsilon =
      static_cast<double>(args.epsilon) * static_cast<double>(scale) * static_cast<double>(scale);
  const auto factor =
      static_cast<float>(1 / sqrt(squares / static_cast<double>(args.width) + scaled_epsilon));
  const float offset = args.one_plus_weight ? 1.0f : 0.0f;
  row.each([&](int at, const float(&x)[R::kPer]) {
    float weight[R::kPer], out[R::kPer];
    if constexpr (kAligned) {
      unpack<kFormat>(load_row<kFormat>(args.weight, static_cast<unsigned>(at)), weight);
    } else {
      weight[0] = load_element<kFormat>(args.weight, static_cast<unsigned>(at));
    }
#pragma unroll
    for (int e = 0; e < R::kPer; ++e) out[e] = x[e] * scale * factor * (weight[e] + offset);
    if constexpr (kAligned) {
      store_row<kFormat>(args.out, row.begin + static_cast<unsigned>(at), out);
    } else {
      store_element<kFormat>(args.out, row.begin + static_cast<unsigned>(at), out[0]);
    }
  });
}

}  // namespace

void rms_norm(const RmsNorm& args, Stream stream) {
  require(problem(args));  // looks at sizes and for null only
  if (args.rows == 0 || args.width == 0) return;
  if (args.width > 1 << 30) require("rms_norm: rows of more than 2^30 elements");
  const auto per = static_cast<int>(16 / bytes_of(args.format));
  const bool aligned = args.width % per == 0 && at_16_bytes(args.x) && at_16_bytes(args.weight) &&
                       at_16_bytes(args.out);
  // One load a thread while that makes blocks of few threads, then more loads.
  const int pieces = aligned ? args.width / per : args.width;
  const int threads = std::min(kMaxThreads, (pieces + kWarp - 1) / kWarp * kWarp);
  with_format(args.format, [&](auto f) {
    constexpr Format kFormat = decltype(f)::value;
    launch({static_cast<unsigned>(args.rows), static_cast<unsigned>(threads), 0, stream},
           aligned ? rms_norm_row<kFormat, true> : rms_norm_row<kFormat, false>, args);
  });
}

Budget rms_norm_budget() {
  return Budget{kMaxThreads, kBlocksAnSm, sizeof(float) * kMaxWarps, kLoads * 16};
}

}  // namespace kvlane::kernels::cuda
