// Rows that stream through two stages of shared memory with cp.async, and 16-byte loads: how
// kernels here read K and V. The result is q . row for every row.

#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "tests/kernels/planted.h"
#include "tests/support/cuda_test.h"

namespace planted {
namespace {

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;

// Faults: what is planted in the kernels below.
constexpr int kSound = 0;
constexpr int kWaitTooWeak = 1;          // wait_group 1 where 0 is needed
constexpr int kNoBarrierAfterWait = 2;   // a thread sees its own copies only
constexpr int kNoBarrierBeforeCopy = 3;  // the next copy lands where others still read
constexpr int kSourcePastTheEnd = 4;  // copies rows that do not exist; their result is thrown away
constexpr int kMisaligned = 5;        // 16 bytes from an address that is a multiple of 4

constexpr int kThreads = 32, kRowFloats = 16, kTileRows = 8, kRows = 37;
constexpr int kTiles = (kRows + kTileRows - 1) / kTileRows;

template <int kFault>
__device__ void fetch(float (*stage)[kRowFloats], const float* rows, int tile) {
  // A thread copies 16 bytes: 4 threads a row, 8 rows at once.
  const int t = static_cast<int>(threadIdx.x), row = tile * kTileRows + t / 4;
  const bool valid = row < kRows || kFault == kSourcePastTheEnd;
  cuda::async_copy_16(&stage[t / 4][t % 4 * 4], rows + (valid ? row : 0) * kRowFloats + t % 4 * 4,
                      valid);
  cuda::async_copy_commit();
}

template <int kFault>
__global__ void products(const float* rows, const float* query, float* out) {
  auto& stages = cuda::shared<float[2][kTileRows][kRowFloats], "stages">();
  const int t = static_cast<int>(threadIdx.x);
  fetch<kFault>(stages[0], rows, 0);
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile + 1 < kTiles) {
      fetch<kFault>(stages[(tile + 1) % 2], rows, tile + 1);
      cuda::async_copy_wait<1>();
    } else if constexpr (kFault == kWaitTooWeak) {
      cuda::async_copy_wait<1>();
    } else {
      cuda::async_copy_wait<0>();
    }
    if constexpr (kFault != kNoBarrierAfterWait) __syncthreads();
    // 4 threads a row, 4 elements each.
    const int row = tile * kTileRows + t / 4;
    const float* mine = &stages[tile % 2][t / 4][t % 4 * 4];
    const float4 q =
        *reinterpret_cast<const float4*>(query + t % 4 * 4 + (kFault == kMisaligned ? 1 : 0));
    const float other = kFault == kMisaligned ? 0.0f : stages[tile % 2][(t / 4 + 1) % 8][0] * 0.0f;
    float sum = mine[0] * q.x + mine[1] * q.y + mine[2] * q.z + mine[3] * q.w + other;
    sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 2);
    if (t % 4 == 0 && row < kRows) out[row] = sum;
    if constexpr (kFault != kNoBarrierBeforeCopy) __syncthreads();
  }
}

template <int kFault>
bool right() {
  std::vector<float> rows(kRows * kRowFloats), query(kRowFloats + 4);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 3 % 11) - 5;
  for (std::size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(i % 5);
  const DeviceArray<float> device_rows(rows), device_query(query), out(kRows);
  cuda::launch({1, kThreads}, products<kFault>, device_rows.data(), device_query.data(),
               out.data());
  const std::vector<float> result = out.host();
  for (std::size_t row = 0; row < kRows; ++row) {
    float sum = 0;  // small integers: exact
    for (std::size_t i = 0; i < kRowFloats; ++i) sum += rows[row * kRowFloats + i] * query[i];
    if (!(result[row] == sum)) return false;
  }
  return true;
}

}  // namespace

std::vector<Case> copy_cases() {
  return {{"sound.copies", right<kSound>},
          {"wait_too_weak", right<kWaitTooWeak>},
          {"barrier_after_wait", right<kNoBarrierAfterWait>},
          {"barrier_before_copy", right<kNoBarrierBeforeCopy>},
          {"copy_past_the_end", right<kSourcePastTheEnd>},
          {"misaligned_load", right<kMisaligned>}};
}

}  // namespace planted
