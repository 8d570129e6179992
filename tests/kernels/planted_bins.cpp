// A histogram in shared memory, and a top-k by counting ranks: what selection does.

#include <algorithm>
#include <numeric>

#include "kernels/common/launch.h"
#include "tests/kernels/planted.h"
#include "tests/support/cuda_test.h"

namespace planted {
namespace {

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;

// Faults: what is planted in the kernels below.
constexpr int kSound = 0;
constexpr int kPlainIncrement = 1;      // bins[b]++ for atomicAdd
constexpr int kNotCleared = 2;          // the bins are never set to 0
constexpr int kStaticIndexTooFar = 3;   // bin kBins of a static array
constexpr int kDynamicIndexTooFar = 4;  // one past the bytes that the launch asked for
constexpr int kTieOffByOne = 5;         // equal scores: <= for <, so two take one place

constexpr int kThreads = 64, kBins = 24, kSize = 500;

template <int kFault>
__global__ void histogram(const int* in, int* out) {
  auto& bins = cuda::shared<int[kBins], "bins">();
  int* copy = cuda::dynamic_shared<int>();  // [kBins]
  constexpr int kShift = kFault == kStaticIndexTooFar ? 1 : 0;
  const int t = static_cast<int>(threadIdx.x);
  if (kFault != kNotCleared && t < kBins) bins[t] = 0;
  __syncthreads();
  for (int i = t; i < kSize; i += kThreads) {
    const int bin = in[i];
    if constexpr (kFault == kPlainIncrement) {
      bins[bin] = bins[bin] + 1;
    } else {
      atomicAdd(&bins[bin], 1);
    }
  }
  __syncthreads();
  if (t < kBins + (kFault == kDynamicIndexTooFar ? 1 : 0)) copy[t] = bins[t % kBins + kShift];
  __syncthreads();
  if (t < kBins) out[t] = copy[kBins - 1 - t];
}

template <int kFault>
bool histogram_right() {
  std::vector<int> in(kSize), expected(kBins, 0);
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<int>(i * i % kBins);
    ++expected[static_cast<std::size_t>(kBins - 1 - in[i])];
  }
  in.back() = kBins - 1;
  --expected[static_cast<std::size_t>(kBins - 1) - (kSize - 1) * (kSize - 1) % kBins];
  ++expected[0];
  const DeviceArray<int> device_in(in), out(kBins);
  cuda::launch({1, kThreads, kBins * sizeof(int)}, histogram<kFault>, device_in.data(), out.data());
  return out.host() == expected;
}

// index[rank of i] = i for the k largest, a tie going to the lower position.
template <int kFault>
__global__ void top_k(const int* scores, int n, int k, int* index) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  int rank = 0;
  for (int j = 0; j < n; ++j) {
    const bool tie = scores[j] == scores[i] && (kFault == kTieOffByOne ? j < i - 1 : j < i);
    rank += scores[j] > scores[i] || tie ? 1 : 0;
  }
  if (rank < k) index[rank] = i;
}

template <int kFault>
bool top_k_right() {
  constexpr int kN = 150, kK = 40;
  std::vector<int> scores(kN);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<int>(i / 2 * 5 % 37);
  std::vector<int> order(kN);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(kK);
  const DeviceArray<int> device_scores(scores), index(std::vector<int>(kK, -1));
  cuda::launch({3, kThreads}, top_k<kFault>, device_scores.data(), kN, kK, index.data());
  return index.host() == order;
}

}  // namespace

std::vector<Case> bin_cases() {
  return {{"sound.histogram", histogram_right<kSound>},
          {"plain_increment", histogram_right<kPlainIncrement>},
          {"uninitialised_shared", histogram_right<kNotCleared>},
          {"static_index_too_far", histogram_right<kStaticIndexTooFar>},
          {"dynamic_index_too_far", histogram_right<kDynamicIndexTooFar>},
          {"sound.top_k", top_k_right<kSound>},
          {"tie_off_by_one", top_k_right<kTieOffByOne>}};
}

}  // namespace planted
