// Rows of a KV cache in pinned host memory read over the bus by a kernel (zero copy), and written
// back; the cache may as well lie in device memory.
//
// Versions
//   1. a warp a row, 16 bytes a lane: a row of 256 bytes leaves half the warp idle, and what a lane
//      waits for is one load of some 1.5 us.
//   2. (here) a warp takes as many rows as make 2 KiB, four 16-byte loads a lane in flight; a lane
//   a
//      row looks up where it lies and tells the others. Neighbouring lanes read neighbouring bytes:
//      requests of 128 bytes on the bus. A grid that stays (4 blocks an SM at most) instead of one
//      that covers all rows: a limit on blocks leaves the other multiprocessors to other streams.
//
// Bytes: a row over the bus and once through device memory, 4 of index a row. In flight: 64 a
// thread, 4 blocks of 256 threads: 64 KiB an SM; PCIe 5 x16 needs 55 GB/s x 2 us = 110 KB in all,
// two multiprocessors; device memory of an H100 18 KB an SM (700 ns x 3.35 TB/s / 132).
// Expected at 80 % of the bus: 64 rows of 2048 x 512 bytes, 67 MB: PCIe 4 (26 GB/s) 3.2 ms, PCIe 5
// 1.5 ms. Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/kv_gather/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp, kBlocksAnSm = 4;
constexpr int kLoads = 4;  // of 16 bytes, in flight a thread

struct Arguments {
  DeviceKv kv;
  const std::int32_t* kv_tokens;
  const std::int32_t* index;
  const std::int32_t* index_count;
  unsigned char* packed;
  unsigned char* rows;  // of the cache
  int index_width, token_limit;
  FastDivide pieces;         // 16-byte loads of a row
  FastDivide groups, heads;  // groups of rows a pair, kv heads
  int rows_a_group, all_groups;
};

template <bool kGather>
__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    kv_move_rows(const __grid_constant__ Arguments a) {
  const int lane = lane_of_warp(), warps = static_cast<int>(gridDim.x) * kWarps;
  const auto row_bytes = static_cast<std::size_t>(a.pieces.divisor()) * 16;
  for (int group = static_cast<int>(blockIdx.x) * kWarps + warp_of_block(); group < a.all_groups;
       group += warps) {
    const int pair = a.groups.quotient(group);
    const int sequence = a.heads.quotient(pair), head = pair - sequence * a.heads.divisor();
    const int first = (group - pair * a.groups.divisor()) * a.rows_a_group;
    const int n = max(0, min(a.kv_tokens[sequence], a.token_limit));
    const int count =
        a.index_count == nullptr ? a.index_width : max(0, min(a.index_count[pair], a.index_width));
    const int rows = n == 0 ? 0 : min(a.rows_a_group, count - first);
    if (rows <= 0) continue;
    const std::size_t place =
        static_cast<std::size_t>(pair) * static_cast<unsigned>(a.index_width) +
        static_cast<unsigned>(first);
    // Past the last row: the last again.
    const int token = a.index[place + static_cast<unsigned>(min(lane, rows - 1))];
    const unsigned long long row = a.kv.row(sequence, head, max(0, min(token, n - 1)));
    unsigned char* packed = a.packed + place * row_bytes;
    const int pieces = rows * a.pieces.divisor();
    for (int base = lane; base - lane < pieces; base += kLoads * kWarp) {
      uint4 raw[kLoads];
      unsigned char* to[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int piece = min(base + j * kWarp, pieces - 1);
        const int of_row = a.pieces.quotient(piece);
        unsigned char* in_cache = a.rows + __shfl_sync(kWholeWarp, row, of_row) * row_bytes +
                                  (piece - of_row * a.pieces.divisor()) * 16;
        unsigned char* in_packed = packed + static_cast<std::size_t>(piece) * 16;
        to[j] = kGather ? in_packed : in_cache;
        raw[j] = load_once(kGather ? in_cache : in_packed);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (base + j * kWarp < pieces) *reinterpret_cast<uint4*>(to[j]) = raw[j];
      }
    }
  }
}

// 2 KiB a warp, but a lane a row at most.
int rows_a_group(int pieces) { return std::max(1, std::min(kWarp, kLoads * kWarp / pieces)); }

const char* device_problem(const KvGather& args) {
  if (const char* found = shape_problem(args.kv)) return found;
  if (args.kv.head_dim <= 0 || args.kv.head_dim % 16 != 0) {
    return "a head dimension that is not a positive multiple of 16";
  }
  if (args.kv.head_dim > 65536) return "a head dimension above 65536";
  if (args.sequences < 0) return "a negative number of sequences";
  if (args.index_width < 0) return "an index of negative width";
  if (args.sequences == 0 || args.index_width == 0) return nullptr;
  if (args.kv_tokens == nullptr || args.index == nullptr) return "no lengths or no index";
  if (args.packed == nullptr) return "no buffer for the packed rows";
  if (reinterpret_cast<std::uintptr_t>(args.packed) % 16 != 0) {
    return "packed rows at an address that is not a multiple of 16";
  }
  const int rows = rows_a_group(static_cast<int>(args.kv.row_bytes() / 16));
  const long long pairs = static_cast<long long>(args.sequences) * args.kv.kv_heads;
  const long long groups = (static_cast<long long>(args.index_width) + rows - 1) / rows;
  // The grid steps past the end by what it has of warps.
  if (pairs > 0x3fffffffll || pairs * groups > 0x3fffffffll) return "more than 2^30 groups of rows";
  return nullptr;
}

template <bool kGather>
void move_rows(const KvGather& args, Stream stream, int blocks) {
  require(device_problem(args));
  if (args.sequences == 0 || args.index_width == 0) return;
  const auto pieces = static_cast<int>(args.kv.row_bytes() / 16);
  Arguments a{};
  a.kv = DeviceKv(args.kv);
  a.kv_tokens = args.kv_tokens;
  a.index = args.index;
  a.index_count = args.index_count;
  a.packed = static_cast<unsigned char*>(args.packed);
  // kv_scatter writes through it, as its header says.
  a.rows = static_cast<unsigned char*>(const_cast<void*>(args.kv.rows));
  a.index_width = args.index_width;
  a.token_limit = args.kv.table_width * args.kv.block_tokens;
  a.pieces = FastDivide(pieces);
  a.rows_a_group = rows_a_group(pieces);
  const int groups = (args.index_width + a.rows_a_group - 1) / a.rows_a_group;
  a.groups = FastDivide(groups);
  a.heads = FastDivide(args.kv.kv_heads);
  a.all_groups = args.sequences * args.kv.kv_heads * groups;
  const int most = blocks > 0 ? blocks : kBlocksAnSm * multiprocessors();
  const int wanted = std::min(most, (a.all_groups + kWarps - 1) / kWarps);
  launch({static_cast<unsigned>(wanted), kThreads, 0, stream}, kv_move_rows<kGather>, a);
}

}  // namespace

void kv_gather(const KvGather& args, Stream stream, int blocks) {
  move_rows<true>(args, stream, blocks);
}

void kv_scatter(const KvGather& args, Stream stream, int blocks) {
  move_rows<false>(args, stream, blocks);
}

Budget kv_gather_budget() { return Budget{kThreads, kBlocksAnSm, 0, kLoads * 16}; }

}  // namespace kvlane::kernels::cuda
