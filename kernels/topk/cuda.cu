// Exact top-k of rows of floats, output ascending by position.
//
// A radix select finds the k-th largest key in three looks at the row (11, 11 and 10 bits of an
// order-preserving integer), a last one writes positions in order. All of it is exact, so ties,
// NaN and infinities need no thought beyond the key.
//
// Versions
//   1. one block a row, all four looks in one launch (topk_rows): no traffic but the row; 8 rows of
//      128 K on a GPU of 132 multiprocessors leave 124 of them idle.
//   2. (here too) few long rows are cut into chunks, a block each (topk_split_*): bins are added up
//      in global memory, the last block of a row to finish a look picks the digit. Five launches.
// Both read 16 bytes a load, four loads of a thread in flight.
//
// Bytes: the row once from memory (4 bytes a score) and three times (split: four) from L2, where
// 50 MB of scores fit; 4 k written. In flight: 64 a thread, 4 blocks of 256 threads an SM: 64 KiB,
// above the 18 KB that an H100's memory needs (latency 700 ns x 3.35 TB/s / 132).
// Expected at 80 % of peak: 256 rows x 32 K on an H100 (3.35 TB/s, L2 about twice that) 33.5 MB:
// 12.5 us of memory and 3 x 6 us of L2 = 31 us. Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_block.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/topk/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kBlocksAnSm = 4;
constexpr int kLoads = 4;  // of 16 bytes, in flight a thread
constexpr int kTile = kThreads * kLoads * 4;
constexpr int kBins = 2048, kPasses = 3;
static_assert(kLoads * kWarps == kWarp);  // one warp scans the sums of a tile

__device__ constexpr int bits_of(int pass) { return pass == 2 ? 10 : 11; }
__device__ constexpr int shift_of(int pass) { return pass == 0 ? 21 : pass == 1 ? 10 : 0; }

// Keys compare as the scores do: NaN below all, -0 as +0.
__device__ __forceinline__ unsigned key_of(unsigned bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  if (bits == 0x80000000u) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

struct Four {
  unsigned key[4];
  unsigned valid;  // bit e: key[e] counts
  int position;    // of key[0]
};

// Calls body(Four (&)[kLoads]) in all threads for each tile of positions [begin, end). Order within
// a tile: load, thread, element.
template <typename Body>
__device__ __forceinline__ void for_each_tile(const float* row, int begin, int end, Body body) {
  // Tiles start at multiples of 16 bytes of memory, whatever the row's own alignment.
  const int skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(float) % 4);
  for (int base = ((begin + skew) & ~3) - skew; base < end; base += kTile) {
    Four four[kLoads];
    const int mine = base + static_cast<int>(threadIdx.x) * 4;
    if (base >= begin && base + kTile <= end) {
      uint4 raw[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) raw[j] = load_once(row + mine + j * kThreads * 4);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        four[j] = Four{{key_of(raw[j].x), key_of(raw[j].y), key_of(raw[j].z), key_of(raw[j].w)},
                       0xfu,
                       mine + j * kThreads * 4};
      }
    } else {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        four[j].position = mine + j * kThreads * 4;
        four[j].valid = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int position = four[j].position + e;
          const bool valid = position >= begin && position < end;
          four[j].key[e] = valid ? key_of(__float_as_uint(row[position])) : 0;
          four[j].valid |= valid ? 1u << e : 0u;
        }
      }
    }
    body(four);
  }
}

// What the looks so far have found: the high bits of the k-th largest key, and how many of the keys
// that begin with them are chosen.
struct Choice {
  unsigned prefix;
  int left;
};

__device__ __forceinline__ void clear_bins(unsigned* bins) {
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) bins[i] = 0;
}

__device__ __forceinline__ void histogram(unsigned* bins, const float* row, int begin, int end,
                                          unsigned prefix, int pass) {
  const int shift = shift_of(pass), bits = bits_of(pass);
  const unsigned mask = (1u << bits) - 1;
  for_each_tile(row, begin, end, [&](const Four(&four)[kLoads]) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const unsigned key = four[j].key[e];
        const bool counts =
            (four[j].valid >> e & 1u) != 0 && (pass == 0 || key >> (shift + bits) == prefix);
        if (counts) atomicAdd(&bins[key >> shift & mask], 1u);
      }
    }
  });
}

// The digit of the k-th largest key, from bins that nobody else touches; leaves them 0. All threads
// call it and get the same.
__device__ __forceinline__ Choice pick_digit(unsigned* bins, Choice before, int pass) {
  auto& warp_sums = shared<unsigned[kWarps], "topk warp sums">();
  auto& chosen = shared<Choice, "topk chosen">();
  constexpr int kMine = kBins / kThreads;
  const int bits = bits_of(pass), lane = lane_of_warp(), warp = warp_of_block();
  const int owned = (1 << bits) / kThreads;
  // Thread 0 owns the highest bins, so that a scan upwards in threads goes down in keys.
  const int top = (1 << bits) - 1 - static_cast<int>(threadIdx.x) * owned;
  unsigned count[kMine], sum = 0;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    count[i] = i < owned ? bins[top - i] : 0;
    sum += count[i];
    if (i < owned) bins[top - i] = 0;
  }
  const unsigned inclusive = warp_inclusive_sum(sum);
  if (lane == kWarp - 1) warp_sums[warp] = inclusive;
  __syncthreads();
  unsigned above = inclusive - sum;
  for (int w = 0; w < warp; ++w) above += warp_sums[w];
  const auto left = static_cast<unsigned>(before.left);
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    if (above < left && left <= above + count[i]) {
      chosen = Choice{(before.prefix << bits) | static_cast<unsigned>(top - i),
                      static_cast<int>(left - above)};
    }
    above += count[i];
  }
  __syncthreads();
  const Choice result = chosen;
  __syncthreads();  // before the next look writes `chosen` or the bins
  return result;
}

// Of keys above the threshold in the low half, equal ones in the high half.
__device__ __forceinline__ unsigned compare_four(const Four& four, unsigned threshold) {
  unsigned counts = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if ((four.valid >> e & 1u) == 0) continue;
    counts += (four.key[e] > threshold ? 1u : 0u) + (four.key[e] == threshold ? 1u << 16 : 0u);
  }
  return counts;
}

struct Before {
  int above, equal;  // keys in front of a chunk
};

// Writes the chosen positions of [begin, end) to their places in `index`.
__device__ __forceinline__ void write_chunk(const float* row, int begin, int end, Choice choice,
                                            Before before, std::int32_t* index) {
  auto& sums = shared<unsigned[2][kWarp], "topk tile sums">();
  const int lane = lane_of_warp(), warp = warp_of_block();
  unsigned parity = 0;  // two sets of sums by turns: one barrier a tile
  for_each_tile(row, begin, end, [&](const Four(&four)[kLoads]) {
    unsigned mine[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const unsigned counts = compare_four(four[j], choice.prefix);
      const unsigned inclusive = warp_inclusive_sum(counts);
      mine[j] = inclusive - counts;
      if (lane == kWarp - 1) sums[parity][j * kWarps + warp] = inclusive;
    }
    __syncthreads();
    const unsigned own = sums[parity][lane];
    const unsigned inclusive = warp_inclusive_sum(own);
    const unsigned total = __shfl_sync(kWholeWarp, inclusive, kWarp - 1);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      mine[j] += __shfl_sync(kWholeWarp, inclusive - own, j * kWarps + warp);
      int above = before.above + static_cast<int>(mine[j] & 0xffffu);
      int equal = before.equal + static_cast<int>(mine[j] >> 16);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if ((four[j].valid >> e & 1u) == 0) continue;
        const unsigned key = four[j].key[e];
        const bool is_above = key > choice.prefix, is_equal = key == choice.prefix;
        if (is_above || (is_equal && equal < choice.left)) {
          index[above + min(equal, choice.left)] = four[j].position + e;
        }
        above += is_above ? 1 : 0;
        equal += is_equal ? 1 : 0;
      }
    }
    before.above += static_cast<int>(total & 0xffffu);
    before.equal += static_cast<int>(total >> 16);
    parity ^= 1u;
  });
}

struct RowOf {
  const float* scores;
  std::int32_t* index;
  int n, k;  // k <= n
};

__device__ __forceinline__ RowOf row_of(const TopK& args, int row) {
  const auto r = static_cast<std::size_t>(row);
  const int n = args.n == nullptr ? args.width : max(0, min(args.n[r], args.width));
  return RowOf{args.scores + r * static_cast<std::size_t>(args.width),
               args.index + r * static_cast<std::size_t>(args.k), n, min(args.k, n)};
}

// The places past the count, and the count.
__device__ __forceinline__ void finish_row(const TopK& args, const RowOf& row, int number) {
  for (int i = row.k + static_cast<int>(threadIdx.x); i < args.k; i += kThreads) row.index[i] = -1;
  if (threadIdx.x == 0) args.count[number] = row.k;
}

__global__ void __launch_bounds__(kThreads, kBlocksAnSm) topk_rows(TopK args) {
  auto& bins = shared<unsigned[kBins], "topk bins">();
  const int number = static_cast<int>(blockIdx.x);
  const RowOf row = row_of(args, number);
  if (row.k > 0) {
    Choice choice{0, row.k};
    clear_bins(bins);
    for (int pass = 0; pass < kPasses; ++pass) {
      __syncthreads();
      histogram(bins, row.scores, 0, row.n, choice.prefix, pass);
      __syncthreads();
      choice = pick_digit(bins, choice, pass);
    }
    write_chunk(row.scores, 0, row.n, choice, Before{0, 0}, row.index);
  }
  finish_row(args, row, number);
}

// ---- few long rows ----

// Of one row in the workspace; all 0 at first, and `bins` and `done` again after each look.
struct SplitRow {
  unsigned bins[kBins];
  unsigned done;  // chunks that have finished this look
  Choice choice;
};
struct Split {
  SplitRow* rows;  // [rows]
  Before* before;  // [rows][chunks]: counts of a chunk, then of all in front of it
  int chunks, chunk;
};

// True in all threads of the last block of the row to come here; it then sees what the others
// wrote.
__device__ __forceinline__ bool last_of_row(SplitRow& row, int chunks) {
  auto& last = shared<bool, "topk last">();
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&row.done, 1u) == static_cast<unsigned>(chunks - 1);
    if (last) atomicExch(&row.done, 0u);
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    topk_split_look(TopK args, Split split, int pass) {
  auto& bins = shared<unsigned[kBins], "topk bins">();
  const int number = static_cast<int>(blockIdx.y);
  const RowOf row = row_of(args, number);
  SplitRow& state = split.rows[number];
  if (row.k == 0) return;
  const Choice choice = pass == 0 ? Choice{0, row.k} : state.choice;
  const int begin = static_cast<int>(blockIdx.x) * split.chunk;
  clear_bins(bins);
  __syncthreads();
  histogram(bins, row.scores, begin, min(begin + split.chunk, row.n), choice.prefix, pass);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) {
    if (bins[i] != 0) atomicAdd(&state.bins[i], bins[i]);
  }
  if (last_of_row(state, split.chunks)) {
    const Choice next = pick_digit(state.bins, choice, pass);
    if (threadIdx.x == 0) state.choice = next;
  }
}

__global__ void __launch_bounds__(kThreads, kBlocksAnSm) topk_split_count(TopK args, Split split) {
  auto& counts = shared<int[2], "topk chunk counts">();
  const int number = static_cast<int>(blockIdx.y);
  const RowOf row = row_of(args, number);
  SplitRow& state = split.rows[number];
  if (row.k == 0) return;
  Before* before = split.before + number * split.chunks;  // both small
  const Choice choice = state.choice;
  const int begin = static_cast<int>(blockIdx.x) * split.chunk;
  int above = 0, equal = 0;
  for_each_tile(row.scores, begin, min(begin + split.chunk, row.n), [&](const Four(&four)[kLoads]) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const unsigned both = compare_four(four[j], choice.prefix);
      above += static_cast<int>(both & 0xffffu);
      equal += static_cast<int>(both >> 16);
    }
  });
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  above = warp_sum(above);
  equal = warp_sum(equal);
  if (lane_of_warp() == 0) {
    atomicAdd(&counts[0], above);
    atomicAdd(&counts[1], equal);
  }
  __syncthreads();
  if (threadIdx.x == 0) before[blockIdx.x] = Before{counts[0], counts[1]};
  if (!last_of_row(state, split.chunks)) return;
  // Few chunks: one thread adds them up.
  if (threadIdx.x == 0) {
    Before sum{0, 0};
    for (int i = 0; i < split.chunks; ++i) {
      const Before own = before[i];
      before[i] = sum;
      sum.above += own.above;
      sum.equal += own.equal;
    }
  }
}

__global__ void __launch_bounds__(kThreads, kBlocksAnSm) topk_split_write(TopK args, Split split) {
  const int number = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.x);
  const RowOf row = row_of(args, number);
  if (row.k > 0) {
    const int begin = chunk * split.chunk;
    write_chunk(row.scores, begin, min(begin + split.chunk, row.n), split.rows[number].choice,
                split.before[number * split.chunks + chunk], row.index);
  }
  if (chunk == 0) finish_row(args, row, number);
}

const char* shape_problem(const TopK& args) {
  if (args.rows < 0 || args.width < 0 || args.k < 0) return "a negative size";
  if (args.rows > 0 && args.width > 0 && args.scores == nullptr) return "no scores";
  if (args.rows > 0 && args.count == nullptr) return "no place for the counts";
  if (args.rows > 0 && args.k > 0 && args.index == nullptr) return "no place for the positions";
  return nullptr;
}

// Chunks a row, 1: rows are not split. Below 2 tiles a chunk the launches cost more than they gain.
int chunks_of(const TopK& args) {
  const int wanted = kBlocksAnSm * multiprocessors();
  if (args.rows == 0 || args.k == 0 || args.rows * 2 >= wanted || args.rows > 65535) return 1;
  return std::max(1, std::min(wanted / args.rows, args.width / (2 * kTile)));
}

}  // namespace

std::size_t topk_workspace(const TopK& args) {
  require(shape_problem(args));
  const auto chunks = static_cast<std::size_t>(chunks_of(args)),
             rows = static_cast<std::size_t>(args.rows);
  return chunks == 1 ? 0 : rows * (sizeof(SplitRow) + chunks * sizeof(Before));
}

void topk(const TopK& args, Workspace workspace, Stream stream) {
  require(shape_problem(args));
  if (args.rows == 0) return;
  const int chunks = chunks_of(args);
  const auto rows = static_cast<unsigned>(args.rows);
  if (chunks == 1) {
    launch({rows, kThreads, 0, stream}, topk_rows, args);
    return;
  }
  if (workspace.bytes < topk_workspace(args)) require("a workspace that is too small");
  // Whole tiles, so that only the row's own alignment decides how they lie.
  const int chunk = (args.width / chunks + kTile) / kTile * kTile;
  const Split split{static_cast<SplitRow*>(workspace.memory),
                    reinterpret_cast<Before*>(static_cast<SplitRow*>(workspace.memory) + rows),
                    (args.width + chunk - 1) / chunk, chunk};
  fill(split.rows, 0, rows * sizeof(SplitRow), stream);
  const dim3 grid(static_cast<unsigned>(split.chunks), rows);
  for (int pass = 0; pass < kPasses; ++pass) {
    launch({grid, kThreads, 0, stream}, topk_split_look, args, split, pass);
  }
  launch({grid, kThreads, 0, stream}, topk_split_count, args, split);
  launch({grid, kThreads, 0, stream}, topk_split_write, args, split);
}

Budget topk_budget() {
  // The row kernel has the most: bins, sums of warps and tiles, the choice.
  return Budget{kThreads, kBlocksAnSm,
                sizeof(unsigned) * (kBins + kWarps + 2 * kWarp) + sizeof(Choice), kLoads * 16};
}

}  // namespace kvlane::kernels::cuda
