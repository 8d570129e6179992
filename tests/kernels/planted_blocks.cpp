// Sums of rows, a grid of (chunks, rows): a tree in shared memory, and the last block of a row to
// finish adds up the partial sums. The pattern of split attention and of split top-k.

#include <cmath>
#include <cstdint>

#include "kernels/common/launch.h"
#include "tests/kernels/planted.h"
#include "tests/support/cuda_test.h"

namespace planted {
namespace {

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;

// Faults: what is planted in the kernels below.
constexpr int kSound = 0;
constexpr int kNoBarrierBeforeRead = 1;   // the tree reads what a neighbour has not written yet
constexpr int kNoBarrierBeforeReuse = 2;  // the next round writes what a slow warp still reads
constexpr int kNoBarrierAfterLast = 3;    // `last` is read while a thread writes it
constexpr int kNoFenceBeforeMerge = 4;    // partial sums of other blocks need not be visible
constexpr int kBlocksShareElement = 5;    // blocks add to one element without atomics
constexpr int kRowPastTheEnd = 6;         // reads one element past the rows
constexpr int kBarrierInBranch = 7;
constexpr int kReturnBeforeBarrier = 8;
constexpr int kLastElementMissing = 9;  // one output is never written

constexpr int kThreads = 96, kChunks = 3, kRows = 2, kWidth = 1001;

template <int kFault>
__device__ float block_sum(float value) {
  auto& tree = cuda::shared<float[128], "tree">();
  const int t = static_cast<int>(threadIdx.x);
  tree[t] = value;
  if (t < 32) tree[kThreads + t] = 0;  // up to a power of two
  if constexpr (kFault == kBarrierInBranch) {
    if (t < 40) {  // NOLINT(bugprone-branch-clone): two places is the fault
      __syncthreads();
    } else {
      __syncthreads();
    }
  } else if constexpr (kFault != kNoBarrierBeforeRead) {
    __syncthreads();
  }
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  const float sum = tree[0];
  if constexpr (kFault != kNoBarrierBeforeReuse) __syncthreads();
  return sum;
}

struct Arguments {
  const float* in;  // [kRows][kWidth]
  float* partial;   // [kRows][kChunks]
  unsigned* done;   // [kRows], 0
  float* out;       // [kRows][2]: the sum and the sum of squares
};

template <int kFault>
__global__ void row_sums(Arguments a) {
  auto& last = cuda::shared<bool, "last">();
  const int row = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.x);
  const int t = static_cast<int>(threadIdx.x);
  const float* in = a.in + row * kWidth;
  float sum = 0, squares = 0;
  const int width = kFault == kRowPastTheEnd ? kWidth + 1 : kWidth;
  for (int i = chunk * kThreads + t; i < width; i += kChunks * kThreads) {
    sum += in[i];
    squares += in[i] * in[i];
  }
  if constexpr (kFault == kReturnBeforeBarrier) {
    if (t == kThreads - 1) return;
  }
  sum = block_sum<kFault>(sum);
  squares = block_sum<kFault>(squares);
  float* partial = a.partial + row * kChunks * 2;
  if constexpr (kFault == kBlocksShareElement) {
    if (t == 0) {
      a.out[row * 2] += sum;
      a.out[row * 2 + 1] += squares;
    }
    return;
  }
  // Not thread 0, which is the one to overwrite the sum where a barrier is missing.
  if (t == kThreads - 1) {
    partial[chunk * 2] = sum;
    partial[chunk * 2 + 1] = squares;
    if constexpr (kFault != kNoFenceBeforeMerge) __threadfence();
    last = atomicAdd(&a.done[row], 1u) == kChunks - 1;
    if constexpr (kFault != kNoFenceBeforeMerge) __threadfence();
  }
  if constexpr (kFault != kNoBarrierAfterLast) __syncthreads();
  if (last && t < 2) {
    float all = 0;
    for (int i = 0; i < kChunks; ++i) all += partial[i * 2 + t];
    if (kFault == kLastElementMissing && row == kRows - 1 && t == 1) return;
    a.out[row * 2 + t] = all;
  }
}

template <int kFault>
bool right() {
  std::vector<float> in(kRows * kWidth);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 13) - 4;
  const DeviceArray<float> device_in(in), partial(kRows * kChunks * 2);
  const DeviceArray<unsigned> done(std::vector<unsigned>(kRows, 0));
  const DeviceArray<float> out = kFault == kBlocksShareElement
                                     ? DeviceArray<float>(std::vector<float>(kRows * 2, 0))
                                     : DeviceArray<float>(kRows * 2);
  cuda::launch({dim3(kChunks, kRows), kThreads}, row_sums<kFault>,
               Arguments{device_in.data(), partial.data(), done.data(), out.data()});
  const std::vector<float> result = out.host();
  for (std::size_t row = 0; row < kRows; ++row) {
    float sum = 0, squares = 0;  // small integers: exact in any order
    for (std::size_t i = 0; i < kWidth; ++i) {
      sum += in[row * kWidth + i];
      squares += in[row * kWidth + i] * in[row * kWidth + i];
    }
    if (result[row * 2] != sum || result[row * 2 + 1] != squares) return false;
  }
  return true;
}

}  // namespace

std::vector<Case> block_cases() {
  return {{"sound.blocks", right<kSound>},
          {"barrier_before_read", right<kNoBarrierBeforeRead>},
          {"barrier_before_reuse", right<kNoBarrierBeforeReuse>},
          {"barrier_after_last", right<kNoBarrierAfterLast>},
          {"fence_before_merge", right<kNoFenceBeforeMerge>},
          {"blocks_share_element", right<kBlocksShareElement>},
          {"row_past_the_end", right<kRowPastTheEnd>},
          {"barrier_in_branch", right<kBarrierInBranch>},
          {"return_before_barrier", right<kReturnBeforeBarrier>},
          {"output_missing", right<kLastElementMissing>}};
}

}  // namespace planted
