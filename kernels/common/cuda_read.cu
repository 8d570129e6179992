// A streaming read of memory.
//
// A block takes tiles of 16 KiB, four 16-byte loads of a thread in flight, as many tiles apart as
// there are blocks; a sum keeps the compiler from leaving the loads out. Words of a tile that lie
// past the end are not asked for.
//
// Bytes: all once. In flight: 64 a thread, 4 blocks of 256 threads an SM: 64 KiB, above the 18 KB
// that an H100's memory needs (latency 700 ns x 3.35 TB/s / 132). 1 GiB
// takes 0.40 ms at 80 % of that bandwidth. Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_read.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp, kBlocksAnSm = 4;
constexpr int kLoads = 4;  // of 16 bytes, in flight a thread
constexpr int kTile = kThreads * kLoads;

__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    sum_words_tiles(const uint4* from, std::size_t pieces, std::uint32_t* sum) {
  auto& of_warps = shared<std::uint32_t[kWarps], "sums of warps">();
  std::uint32_t mine = 0;
  for (std::size_t base = std::size_t{blockIdx.x} * kTile; base < pieces;
       base += std::size_t{gridDim.x} * kTile) {
    uint4 raw[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const std::size_t at = base + static_cast<unsigned>(j * kThreads) + threadIdx.x;
      raw[j] = at < pieces ? load_once(from + at) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) mine += raw[j].x + raw[j].y + raw[j].z + raw[j].w;
  }
  mine = warp_sum(mine);
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint32_t all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all += of_warps[w];
    atomicAdd(sum, all);
  }
}

const char* problem(const void* from, std::size_t bytes, const std::uint32_t* sum) {
  if (sum == nullptr || (from == nullptr && bytes > 0)) return "no memory to read or no sum";
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes % 16 != 0) {
    return "memory to read that is not in multiples of 16 bytes";
  }
  return bytes > std::size_t{1} << 40 ? "more than 2^40 bytes to read" : nullptr;
}

}  // namespace

void sum_words(const void* from, std::size_t bytes, std::uint32_t* sum, Stream stream) {
  require(problem(from, bytes, sum));
  fill(sum, 0, sizeof *sum, stream);
  if (bytes == 0) return;
  const std::size_t tiles = (bytes / 16 + kTile - 1) / kTile;
  const auto most = static_cast<std::size_t>(kBlocksAnSm * multiprocessors());
  launch({static_cast<unsigned>(std::min(tiles, most)), kThreads, 0, stream}, sum_words_tiles,
         static_cast<const uint4*>(from), bytes / 16, sum);
}

Budget sum_words_budget() {
  return {kThreads, kBlocksAnSm, kWarps * sizeof(std::uint32_t), 16 * kLoads};
}

}  // namespace kvlane::kernels::cuda
