// Stable partition of a selection into local and remote rows, a block a sequence and kv head.
//
// Versions
//   1. one look at the row, remote ones written backwards from its end and then turned round: the
//      places past the count are in the way and the turn costs what it saved.
//   2. (here) a first look counts the local ones, a second writes both kinds to their places; the
//      row is at most some 64 KB and the second look finds it in L1 or L2.
// 16 bytes a load, four loads of a thread in flight; mask and bits are looked up by byte and word,
// a few KB that stay in L1.
//
// Bytes: 4 read and 4 written an entry; the mask once, fetched bits once. In flight: 64 a thread, 4
// blocks of 256 threads an SM: 64 KiB, above the 18 KB that an H100's memory needs (700 ns x 3.35
// TB/s / 132).
// Expected at 80 % of peak: 64 sequences x 8 kv heads x 4096 entries, 16.8 MB: 6 us on an H100; the
// usual 64 rows of 2048 (1 MB) are a launch's own time, about 4 us. Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/index_split/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kBlocksAnSm = 4;
constexpr int kLoads = 4;  // of 16 bytes, in flight a thread
constexpr int kTile = kThreads * kLoads * 4;
static_assert(kLoads * kWarps == kWarp);  // one warp scans the sums of a tile

// Which tokens of one sequence and kv head are local.
struct Locality {
  const std::uint8_t* mask;
  const std::uint64_t* bits;
  FastDivide block_tokens;
  int tokens;
  __device__ __forceinline__ bool operator()(int token) const {
    if (token < 0 || token >= tokens) return false;
    if (__ldg(mask + block_tokens.quotient(token)) == 1) return true;
    return bits != nullptr && (bits[token / 64] >> (token % 64) & 1u) != 0;
  }
};

struct Four {
  int token[4];
  unsigned valid, local;  // bit e is of token[e]
  int position;           // of token[0]
};

// Calls body(Four (&)[kLoads]) in all threads for each tile. Order within a tile: load, thread,
// element.
template <typename Body>
__device__ __forceinline__ void for_each_tile(const std::int32_t* row, int count,
                                              const Locality& is_local, Body body) {
  // Tiles start at multiples of 16 bytes of memory, whatever the row's own alignment.
  const int skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / 4 % 4);
  for (int base = -skew; base < count; base += kTile) {
    Four four[kLoads];
    const int mine = base + static_cast<int>(threadIdx.x) * 4;
    if (base >= 0 && base + kTile <= count) {
      uint4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        raw[j] = *reinterpret_cast<const uint4*>(row + mine + j * kThreads * 4);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        four[j] = Four{{static_cast<int>(raw[j].x), static_cast<int>(raw[j].y),
                        static_cast<int>(raw[j].z), static_cast<int>(raw[j].w)},
                       0xfu,
                       0,
                       mine + j * kThreads * 4};
      }
    } else {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        four[j].position = mine + j * kThreads * 4;
        four[j].valid = four[j].local = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int position = four[j].position + e;
          const bool valid = position >= 0 && position < count;
          four[j].token[e] = valid ? row[position] : -1;
          four[j].valid |= valid ? 1u << e : 0u;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool local = (four[j].valid >> e & 1u) != 0 && is_local(four[j].token[e]);
        four[j].local |= local ? 1u << e : 0u;
      }
    }
    body(four);
  }
}

struct Arguments {
  IndexSplit split;
  FastDivide block_tokens;
  int tokens;  // of the mask
};

__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    index_split_rows(const __grid_constant__ Arguments a) {
  auto& sums = shared<int[2][kWarp], "index split sums">();
  auto& total = shared<int, "index split total">();
  const IndexSplit& args = a.split;
  const auto pair = static_cast<std::size_t>(blockIdx.x);
  const int width = args.index_width, lane = lane_of_warp(), warp = warp_of_block();
  const int count =
      args.index_count == nullptr ? width : max(0, min(args.index_count[pair], width));
  const std::int32_t* row = args.index + pair * static_cast<unsigned>(width);
  std::int32_t* out = args.split + pair * static_cast<unsigned>(width);
  const auto sequence = static_cast<std::size_t>(blockIdx.x / static_cast<unsigned>(args.kv_heads));
  const Locality is_local{
      args.block_mask + sequence * static_cast<unsigned>(args.blocks),
      args.row_bits == nullptr
          ? nullptr
          : args.row_bits + pair * ((static_cast<std::size_t>(a.tokens) + 63) / 64),
      a.block_tokens, a.tokens};

  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  int mine = 0;
  for_each_tile(row, count, is_local, [&](const Four(&four)[kLoads]) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) mine += __popc(four[j].local);
  });
  mine = warp_sum(mine);
  if (lane == 0) atomicAdd(&total, mine);
  __syncthreads();
  const int all_local = total;
  if (threadIdx.x == 0) args.local_count[pair] = all_local;

  int before = 0;       // local ones in front of the tile
  unsigned parity = 0;  // two sets of sums by turns: one barrier a tile
  for_each_tile(row, count, is_local, [&](const Four(&four)[kLoads]) {
    int in_front[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int own = __popc(four[j].local), inclusive = warp_inclusive_sum(own);
      in_front[j] = inclusive - own;
      if (lane == kWarp - 1) sums[parity][j * kWarps + warp] = inclusive;
    }
    __syncthreads();
    const int own = sums[parity][lane], inclusive = warp_inclusive_sum(own);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      int local =
          before + in_front[j] + __shfl_sync(kWholeWarp, inclusive - own, j * kWarps + warp);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if ((four[j].valid >> e & 1u) == 0) continue;
        const bool is = (four[j].local >> e & 1u) != 0;
        out[is ? local : all_local + (four[j].position + e - local)] = four[j].token[e];
        local += is ? 1 : 0;
      }
    }
    before += __shfl_sync(kWholeWarp, inclusive, kWarp - 1);
    parity ^= 1u;
  });
  for (int i = count + static_cast<int>(threadIdx.x); i < width; i += kThreads) out[i] = -1;
}

const char* shape_problem(const IndexSplit& args) {
  if (args.sequences < 0 || args.kv_heads < 0 || args.index_width < 0 || args.blocks < 0) {
    return "a negative size";
  }
  const long long pairs = static_cast<long long>(args.sequences) * args.kv_heads;
  if (pairs == 0) return nullptr;
  if (pairs > 0x7fffffffll) return "more than 2^31 rows";
  if (args.local_count == nullptr) return "no output";
  if (args.index_width > 0 && (args.index == nullptr || args.split == nullptr)) {
    return "no index or no output";
  }
  if (args.block_tokens <= 0) return "blocks of no tokens";
  if (args.blocks > 0 && args.block_mask == nullptr) return "no mask";
  if (static_cast<long long>(args.blocks) * args.block_tokens > 0x7fffffffll) {
    return "a mask of more than 2^31 tokens";
  }
  return nullptr;
}

}  // namespace

void index_split(const IndexSplit& args, Stream stream) {
  require(shape_problem(args));
  const int pairs = args.sequences * args.kv_heads;
  if (pairs == 0) return;
  const Arguments a{args, FastDivide(args.block_tokens), args.blocks * args.block_tokens};
  launch({static_cast<unsigned>(pairs), kThreads, 0, stream}, index_split_rows, a);
}

Budget index_split_budget() {
  return Budget{kThreads, kBlocksAnSm, sizeof(int) * (2 * kWarp + 1), kLoads * 16};
}

}  // namespace kvlane::kernels::cuda
