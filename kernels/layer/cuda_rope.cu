// Rotary embedding, a block a token and share of its heads.
//
// Versions
//   1. sine and cosine beside every element: the angle, reduced in double (at position 10^5 fp32
//      would be off by 2^-7), costs more than the memory does on GPUs that have few fp64 units.
//   2. (here) a block makes the sines and cosines of its token once, in shared memory, and turns
//   all
//      its heads by them. 16 bytes a load from both halves of a head.
//
// Bytes: a tensor read and written. In flight: 32 a thread, 4 blocks of 256 threads: 32 KiB an SM,
// above the 18 KB that an H100 needs (700 ns x 3.35 TB/s / 132).
// Expected at 80 % of peak: 4096 tokens x 32 heads x 128 in bf16, 67 MB: 25 us on an H100, 97 us on
// an L20 (864 GB/s); fp64: 10 operations a pair, token and block, 2 us at an L20's 0.9 TFLOP/s. Not
// measured.

#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/layer/cuda.h"
#include "kernels/layer/cuda_elements.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kBlocksAnSm = 4;

struct Arguments {
  Rope rope;
  FastDivide pieces;  // 16-byte loads (or elements) of half a head's turned part
  FastDivide rest;    // of what is not turned
  int heads_a_block;
};

// Taylor series for |x| <= pi / 4; what is left out is below 2^-28.
__device__ __forceinline__ float2 cosine_and_sine_of_small(float x) {
  const float y = x * x;
  const float sine =
      x * (1 + y * (-1.0f / 6 + y * (1.0f / 120 + y * (-1.0f / 5040 + y * (1.0f / 362880)))));
  const float cosine =
      1 + y * (-0.5f +
               y * (1.0f / 24 + y * (-1.0f / 720 + y * (1.0f / 40320 + y * (-1.0f / 3628800)))));
  return float2{cosine, sine};
}

__device__ __forceinline__ float2 cosine_and_sine(double angle) {
  const double quarters = rint(angle * 0.63661977236758134308);  // 2 / pi
  const float2 small =
      cosine_and_sine_of_small(static_cast<float>(angle - quarters * 1.57079632679489661923));
  const double quarter = quarters - 4 * floor(quarters * 0.25);  // 0 ... 3, or NaN: then all is
  const bool odd = quarter == 1 || quarter == 3;
  const float cosine = odd ? small.y : small.x, sine = odd ? small.x : small.y;
  return float2{quarter == 1 || quarter == 2 ? -cosine : cosine, quarter >= 2 ? -sine : sine};
}

template <Format kFormat, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    rope_token(const __grid_constant__ Arguments a) {
  constexpr int kPer = kAligned ? kPerLoad<kFormat> : 1;
  const Rope& args = a.rope;
  auto* turn = dynamic_shared<float2>();  // [rotary_dim / 2]: cosine, sine
  const int half = args.rotary_dim / 2, thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.y) * a.heads_a_block;
  const int heads = min(a.heads_a_block, args.heads - first);
  const std::size_t begin =
      (static_cast<std::size_t>(blockIdx.x) * static_cast<unsigned>(args.heads) +
       static_cast<unsigned>(first)) *
      static_cast<unsigned>(args.head_dim);
  for (int i = thread; i < half; i += kThreads) {
    turn[i] = cosine_and_sine(static_cast<double>(args.positions[blockIdx.x]) *
                              static_cast<double>(args.frequencies[i]));
  }
  __syncthreads();
  const int pieces = a.pieces.divisor();
  for (int item = thread; half > 0 && item < heads * pieces; item += kThreads) {
    const int head = a.pieces.quotient(item), pair = (item - head * pieces) * kPer;
    const std::size_t at = begin +
                           static_cast<unsigned>(head) * static_cast<std::size_t>(args.head_dim) +
                           static_cast<unsigned>(pair);
    float x[kPer], y[kPer];
    if constexpr (kAligned) {
      const uint4 low = load_row<kFormat>(args.x, at);
      const uint4 high = load_row<kFormat>(args.x, at + static_cast<unsigned>(half));
      unpack<kFormat>(low, x);
      unpack<kFormat>(high, y);
    } else {
      x[0] = load_element<kFormat>(args.x, at);
      y[0] = load_element<kFormat>(args.x, at + static_cast<unsigned>(half));
    }
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      const float2 t = turn[pair + e];
      const float turned = x[e] * t.x - y[e] * t.y;
      y[e] = y[e] * t.x + x[e] * t.y;
      x[e] = turned;
    }
    if constexpr (kAligned) {
      store_row<kFormat>(args.out, at, x);
      store_row<kFormat>(args.out, at + static_cast<unsigned>(half), y);
    } else {
      store_element<kFormat>(args.out, at, x[0]);
      store_element<kFormat>(args.out, at + static_cast<unsigned>(half), y[0]);
    }
  }
  if (args.out == args.x || args.rotary_dim == args.head_dim) return;
  const int rest = a.rest.divisor();
  for (int item = thread; item < heads * rest; item += kThreads) {
    const int head = a.rest.quotient(item);
    const std::size_t at = begin +
                           static_cast<unsigned>(head) * static_cast<std::size_t>(args.head_dim) +
                           static_cast<unsigned>(args.rotary_dim + (item - head * rest) * kPer);
    if constexpr (kAligned) {
      float values[kPer];
      unpack<kFormat>(load_row<kFormat>(args.x, at), values);
      store_row<kFormat>(args.out, at, values);
    } else {
      store_element<kFormat>(args.out, at, load_element<kFormat>(args.x, at));
    }
  }
}

}  // namespace

void rope(const Rope& args, Stream stream) {
  require(problem(args));  // looks at sizes and for null only
  if (args.tokens == 0 || args.heads == 0 || args.head_dim == 0) return;
  if (args.rotary_dim > 8192) require("rope: rotary_dim above 8192");
  if (static_cast<long long>(args.heads) * args.head_dim > 0x7fffffffll) {
    require("rope: tokens of more than 2^31 elements");
  }
  const auto per = static_cast<int>(16 / bytes_of(args.format));
  const int half = args.rotary_dim / 2, rest = args.head_dim - args.rotary_dim;
  const bool aligned =
      half % per == 0 && args.head_dim % per == 0 && at_16_bytes(args.x) && at_16_bytes(args.out);
  const int size = aligned ? per : 1;
  // Few tokens: their heads are shared by several blocks.
  const int wanted = std::max(1, kBlocksAnSm * multiprocessors() / args.tokens);
  int heads_a_block = std::max(1, args.heads / std::min(wanted, args.heads));
  heads_a_block = std::max(heads_a_block, (args.heads + 65534) / 65535);
  const Arguments a{args, FastDivide(std::max(1, half / size)),
                    FastDivide(std::max(1, rest / size)), heads_a_block};
  const dim3 grid(static_cast<unsigned>(args.tokens),
                  static_cast<unsigned>((args.heads + heads_a_block - 1) / heads_a_block));
  with_format(args.format, [&](auto f) {
    constexpr Format kFormat = decltype(f)::value;
    launch({grid, kThreads, sizeof(float2) * static_cast<std::size_t>(half), stream},
           aligned ? rope_token<kFormat, true> : rope_token<kFormat, false>, a);
  });
}

Budget rope_budget() {
  return Budget{kThreads, kBlocksAnSm, sizeof(float2) * 64, 2 * 16};  // rotary_dim 128
}

}  // namespace kvlane::kernels::cuda
