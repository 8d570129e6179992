// Softmax of 32 values a warp with shuffles, and an exchange through shared memory within a warp:
// what attention does with its scores.

#include <cmath>

#include "kernels/common/launch.h"
#include "tests/kernels/planted.h"
#include "tests/support/cuda_test.h"

namespace planted {
namespace {

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;

// Faults: what is planted in the kernels below.
constexpr int kSound = 0;
constexpr int kNoSyncwarp = 1;         // neighbours read what may not be written yet
constexpr int kNoSyncwarpButVote = 2;  // a vote lies between, but votes order no memory
constexpr int kNarrowMask = 3;         // a mask of 16 lanes from all 32
constexpr int kMaskWithReturned = 4;
constexpr int kHalfAtBarrier = 5;    // half a warp at a shuffle, half at a barrier
constexpr int kWrongOffset = 6;      // a butterfly that skips a step
constexpr int kWrongQuad = 7;        // partners 1 and 4 where the quad has 1 and 2
constexpr int kLaneOutsideMask = 8;  // reads a lane that takes no part

constexpr int kThreads = 64, kQuad = 4;

template <int kFault>
__device__ float sum_of_warp(float value) {
  const int t = static_cast<int>(threadIdx.x);
  if constexpr (kFault == kHalfAtBarrier) {
    if (t % 32 < 16) {
      __syncthreads();
      return value;
    }
  }
  const unsigned mask = kFault == kNarrowMask ? 0xffffu : 0xffffffffu;
  for (int step = 16; step > 0; step = kFault == kWrongOffset && step == 4 ? 1 : step / 2) {
    value += __shfl_xor_sync(mask, value, step);
  }
  return value;
}

// out[t]: softmax of the warp's 32 values, reversed within the warp; quads[t]: the largest of 4.
template <int kFault>
__global__ void softmax(const float* in, float* out, float* quads) {
  auto& row = cuda::shared<float[kThreads], "row">();
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  if constexpr (kFault == kMaskWithReturned) {
    if (t == kThreads - 1) return;
  }
  const float p = exp2f(in[t]);
  row[t] = p / sum_of_warp<kFault>(p);
  if constexpr (kFault == kNoSyncwarpButVote) {
    if (__any_sync(cuda::kWholeWarp, p < 0) != 0) return;
  } else if constexpr (kFault != kNoSyncwarp) {
    __syncwarp();
  }
  out[t] = row[warp * 32 + 31 - lane];
  float quad = in[t];
  quad = fmaxf(quad, __shfl_xor_sync(cuda::kWholeWarp, quad, 1));
  quad = fmaxf(quad, __shfl_xor_sync(cuda::kWholeWarp, quad, kFault == kWrongQuad ? 4 : 2));
  if constexpr (kFault == kLaneOutsideMask) {
    if (lane < 8) quad = __shfl_sync(0xffu, quad, lane + 1);
  }
  quads[t] = quad;
}

template <int kFault>
bool right() {
  std::vector<float> in(kThreads);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 11 % 17) * 0.25f;
  const DeviceArray<float> device_in(in), out(kThreads), quads(kThreads);
  cuda::launch({1, kThreads}, softmax<kFault>, device_in.data(), out.data(), quads.data());
  const std::vector<float> result = out.host(), largest = quads.host();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t first = i / 32 * 32, quad = i / kQuad * kQuad;
    double sum = 0, top = 0;
    for (std::size_t j = 0; j < 32; ++j) sum += std::exp2(static_cast<double>(in[first + j]));
    for (std::size_t j = 0; j < kQuad; ++j) top = std::fmax(top, static_cast<double>(in[quad + j]));
    const double expected = std::exp2(static_cast<double>(in[first + 31 - (i - first)])) / sum;
    if (!(std::fabs(static_cast<double>(result[i]) - expected) < 1e-6)) return false;
    if (static_cast<double>(largest[i]) != top) return false;
  }
  return true;
}

}  // namespace

std::vector<Case> warp_cases() {
  return {{"sound.warps", right<kSound>},
          {"syncwarp", right<kNoSyncwarp>},
          {"vote_for_syncwarp", right<kNoSyncwarpButVote>},
          {"narrow_mask", right<kNarrowMask>},
          {"mask_with_returned", right<kMaskWithReturned>},
          {"half_at_barrier", right<kHalfAtBarrier>},
          {"wrong_xor_offset", right<kWrongOffset>},
          {"wrong_quad", right<kWrongQuad>},
          {"lane_outside_mask", right<kLaneOutsideMask>}};
}

}  // namespace planted
