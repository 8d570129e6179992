// HATA's codes and Hamming scores.
//
// Encoding: products of cuda_products.h, their signs put together by shuffles. Bytes: vectors once,
// 64 KiB of weights a kv head from L2, 18 written a vector. Prefilling is bound by multiply-adds:
// 32 K tokens x 8 kv heads x d 128 are 8.6 GFLOP, at 80 % of an H100's 67 TFLOP/s 0.16 ms; the
// vectors alone would take 25 us. Decoding (8 tokens) is a walk of 8 dependent steps over weights
// in L2, about 10 us.
//
// Scoring versions
//   1. a distance a query head: 4 POPC a head and key at 16 a clock and SM; 8 heads take twice as
//      long as the memory does on an H100.
//   2. (here) the heads of a group together. Let c of the G query codes have bit j; a key that has
//      it adds w = G - 2 c more to the sum of distances than one that has not. So the sum is
//      sum min(c, G - c) + sum |w| over bits where the key, flipped where w < 0, is 1: one POPC a
//      bit of |w| and word, log2 G in place of G. The lowest bit of |w| is the same for all j, and
//      planes that are all 0 are left out: 1 plane for G = 1 and 2, 2 for 4, 3 for 8.
//      32 lanes read 32 neighbouring codes, four times.
// Integers all the way: 64 G - distance is exact in fp32, and times an fp16 norm is one rounding.
//
// Bytes: 16 + 2 read, 4 written a key and kv head. In flight: 72 a thread, 4 blocks of 256 threads:
// 72 KiB an SM, above the 18 KB that an H100 needs (700 ns x 3.35 TB/s / 132).
// Expected at 80 % of peak: 8 sequences x 8 kv heads x 32 K keys, 46 MB: 17 us on an H100, 67 us on
// an L20 (864 GB/s). Not measured.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_products.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "kernels/hata/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

// ---- codes ----

constexpr int kEncodeBlocksAnSm = 3;

struct EncodeArguments {
  HataEncode encode;
  FastDivide group;
  int vectors;  // of a kv head
  bool aligned;
};

template <Format kFormat, bool kShareElements>
using Encode = Products<kFormat, kWarp, kShareElements>;

template <Format kFormat, bool kShareElements>
__global__ void __launch_bounds__(128, kEncodeBlocksAnSm)
    hata_encode_tile(const __grid_constant__ EncodeArguments a) {
  using P = Encode<kFormat, kShareElements>;
  static_assert(P::kColumns == 128 && P::kThreads == 128);
  const HataEncode& args = a.encode;
  const int kv_head = static_cast<int>(blockIdx.y), lane = lane_of_warp();
  const int first = static_cast<int>(blockIdx.x) * P::kTile;
  const typename P::Vectors vectors{
      args.x,  a.vectors, args.head_dim, args.heads, kv_head * a.group.divisor(),
      a.group, a.aligned};
  const float* matrix =
      args.weights +
      static_cast<std::size_t>(kv_head) * static_cast<unsigned>(args.head_dim) * 128 + lane * 4;
  float squares[P::kFinish];
#pragma unroll
  for (int i = 0; i < P::kFinish; ++i) squares[i] = 0;
  P::run(
      vectors, first,
      [&](int k) {
        return __ldg(reinterpret_cast<const float4*>(matrix + static_cast<std::size_t>(k) * 128));
      },
      [&](const typename P::Tile& tile) {
        if (args.norms == nullptr) return;
#pragma unroll
        for (int i = 0; i < P::kFinish; ++i) {
#pragma unroll
          for (int e = 0; e < P::kChunk; e += kWarp) {
            const float x = tile[P::finished(i)][e + lane];
            squares[i] += x * x;
          }
        }
      },
      [&](int i, float4 sum) {
        unsigned word = ((sum.x > 0 ? 1u : 0u) | (sum.y > 0 ? 2u : 0u) | (sum.z > 0 ? 4u : 0u) |
                         (sum.w > 0 ? 8u : 0u))
                        << (lane % 8 * 4);
#pragma unroll
        for (int step = 4; step > 0; step /= 2) word |= __shfl_xor_sync(kWholeWarp, word, step);
        const float square = args.norms == nullptr ? 0.0f : warp_sum(squares[i]);
        const int vector = first + P::finished(i);
        if (vector >= vectors.count) return;
        const std::size_t row = vectors.row(vector);
        if (lane % 8 == 0) reinterpret_cast<unsigned*>(args.codes + row)[lane / 8] = word;
        if (lane == 0 && args.norms != nullptr) {
          args.norms[row] = __half_as_ushort(__float2half(sqrtf(square)));
        }
      });
}

template <Format kFormat>
void encode(const EncodeArguments& a, Stream stream) {
  const auto heads = static_cast<unsigned>(a.encode.kv_heads);
  const auto tiles = [&](int tile) { return static_cast<unsigned>((a.vectors + tile - 1) / tile); };
  // Few vectors: smaller tiles, and the warps of a block share the elements.
  const unsigned large = tiles(Encode<kFormat, false>::kTile);
  if (large * heads < 2u * static_cast<unsigned>(multiprocessors())) {
    const dim3 grid(tiles(Encode<kFormat, true>::kTile), heads);
    launch({grid, 128, 0, stream}, hata_encode_tile<kFormat, true>, a);
  } else {
    launch({dim3(large, heads), 128, 0, stream}, hata_encode_tile<kFormat, false>, a);
  }
}

// ---- scores ----

constexpr int kThreads = 256, kBlocksAnSm = 4;
constexpr int kKeys = 4;  // a thread and step
constexpr int kStep = kThreads * kKeys;
constexpr int kMaxPlanes = 13;  // |w| <= 4096

struct Group {
  uint4 planes[kMaxPlanes];  // bit j of plane p: bit `weight[p]` of |w| of bit j
  unsigned flip[4];
  int weight[kMaxPlanes];
  int nearest[4];  // sums of min(c, G - c)
  int count;       // of planes
};

// What the sum of distances to the group's queries needs; all threads call it.
__device__ __forceinline__ void prepare(Group& group, const HataCode* queries, int heads) {
  const int bit = static_cast<int>(threadIdx.x), word = warp_of_block();
  if (bit < 128) {
    const auto* words = reinterpret_cast<const unsigned*>(queries) + word;
    int c = 0;
#pragma unroll 4
    for (int g = 0; g < heads; ++g) c += static_cast<int>(words[4 * g] >> (bit % 32) & 1u);
    const int w = heads - 2 * c, size = w < 0 ? -w : w;
    const unsigned flip = __ballot_sync(kWholeWarp, w < 0);
    const int nearest = warp_sum(min(c, heads - c));
    if (lane_of_warp() == 0) {
      group.flip[word] = flip;
      group.nearest[word] = nearest;
    }
    // w is odd where the group is: then the lowest plane is all ones, else all zeros.
    int p = 0;
#pragma unroll 1
    for (int weight = heads % 2 == 0 ? 1 : 0; 1 << weight <= heads; ++weight, ++p) {
      const unsigned plane = __ballot_sync(kWholeWarp, size >> weight & 1);
      if (lane_of_warp() == 0) {
        reinterpret_cast<unsigned*>(&group.planes[p])[word] = plane;
        if (word == 0) group.weight[p] = weight;
      }
    }
    if (bit == 0) group.count = p;
  }
  __syncthreads();
}

struct ScoreArguments {
  HataScore score;
  int group;
  int chunk;  // keys of a block, whole steps
};

__global__ void __launch_bounds__(kThreads, kBlocksAnSm)
    hata_score_chunk(const __grid_constant__ ScoreArguments a) {
  auto& group = shared<Group, "hata group">();
  const HataScore& args = a.score;
  const auto pair = static_cast<std::size_t>(blockIdx.x);
  const int sequence = static_cast<int>(blockIdx.x / static_cast<unsigned>(args.kv_heads));
  const int n = max(0, min(args.kv_tokens[sequence], args.width));
  const int begin = static_cast<int>(blockIdx.y) * a.chunk, end = min(begin + a.chunk, n);
  if (begin >= end) return;
  // Query heads of a pair follow each other: [sequences][kv_heads][group].
  prepare(group, args.query_codes + pair * static_cast<unsigned>(a.group), a.group);
  const std::size_t row = pair * static_cast<unsigned>(args.width);
  const HataCode* codes = args.key_codes + row;
  const std::uint16_t* norms = args.key_norms == nullptr ? nullptr : args.key_norms + row;
  float* scores = args.scores + row;
  const int nearest = group.nearest[0] + group.nearest[1] + group.nearest[2] + group.nearest[3];
  const uint4 flip{group.flip[0], group.flip[1], group.flip[2], group.flip[3]};
  const int planes = group.count;

  for (int base = begin + static_cast<int>(threadIdx.x); base < end; base += kStep) {
    uint4 key[kKeys];
    unsigned short norm[kKeys];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int at = min(base + j * kThreads, end - 1);  // past the end: the last again, not stored
      key[j] = load_once(codes + at);
      norm[j] = norms == nullptr ? 0x3c00u : norms[at];  // 1
    }
    int distance[kKeys];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) distance[j] = nearest;
#pragma unroll 1
    for (int p = 0; p < planes; ++p) {
      const uint4 plane = group.planes[p];
      const int weight = group.weight[p];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        distance[j] +=
            (__popc((key[j].x ^ flip.x) & plane.x) + __popc((key[j].y ^ flip.y) & plane.y) +
             __popc((key[j].z ^ flip.z) & plane.z) + __popc((key[j].w ^ flip.w) & plane.w))
            << weight;
      }
    }
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int at = base + j * kThreads;
      if (at >= end) continue;
      const float score = static_cast<float>(64 * a.group - distance[j]) * 0.015625f;
      scores[at] = score * __half2float(__ushort_as_half(norm[j]));
    }
  }
}

const char* shape_problem(const HataScore& args) {
  if (args.sequences < 0 || args.width < 0) return "a negative size";
  if (const char* found = problem_of_heads(args.query_heads, args.kv_heads)) return found;
  if (args.query_heads / args.kv_heads > 4096) return "more than 4096 query heads a kv head";
  if (static_cast<long long>(args.sequences) * args.query_heads > 0x7fffffffll) {
    return "more than 2^31 rows";
  }
  if (args.sequences == 0 || args.width == 0) return nullptr;
  if (args.kv_tokens == nullptr || args.query_codes == nullptr || args.key_codes == nullptr ||
      args.scores == nullptr) {
    return "no lengths, no codes or no scores";
  }
  if (reinterpret_cast<std::uintptr_t>(args.key_codes) % 16 != 0) {
    return "key codes at an address that is not a multiple of 16";
  }
  return nullptr;
}

}  // namespace

void hata_encode(const HataEncode& args, Stream stream) {
  require(problem(args));  // looks at sizes and for null only
  if (args.tokens == 0) return;
  if (static_cast<long long>(args.tokens) * args.heads > 0x7fffffffll - 128) {
    require("more than 2^31 vectors");
  }
  if (args.kv_heads > 65535) require("more than 65535 kv heads");
  if (reinterpret_cast<std::uintptr_t>(args.weights) % 16 != 0) {
    require("weights at an address that is not a multiple of 16");
  }
  const int group = args.heads / args.kv_heads;
  const auto row_bytes = static_cast<std::size_t>(args.head_dim) * bytes_of(args.format);
  const EncodeArguments a{
      args, FastDivide(group), args.tokens * group,
      row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0};
  switch (args.format) {
    case Format::fp32:
      return encode<Format::fp32>(a, stream);
    case Format::fp16:
      return encode<Format::fp16>(a, stream);
    case Format::bf16:
      return encode<Format::bf16>(a, stream);
  }
}

void hata_score(const HataScore& args, Stream stream) {
  require(shape_problem(args));
  if (args.sequences == 0 || args.width == 0) return;
  const int pairs = args.sequences * args.kv_heads;
  // A block reads its group's codes first, so it takes up to 8 steps where the GPU is full without.
  const int steps = (args.width + kStep - 1) / kStep;
  const int wanted = (2 * kBlocksAnSm * multiprocessors() + pairs - 1) / pairs;
  int steps_a_block = std::min(8, std::max(1, steps / wanted));
  steps_a_block = std::max(steps_a_block, (steps + 65534) / 65535);
  const dim3 grid(static_cast<unsigned>(pairs),
                  static_cast<unsigned>((steps + steps_a_block - 1) / steps_a_block));
  const ScoreArguments a{args, args.query_heads / args.kv_heads, steps_a_block * kStep};
  launch({grid, kThreads, 0, stream}, hata_score_chunk, a);
}

Budget hata_encode_budget() {
  using P = Encode<Format::bf16, false>;
  return Budget{P::kThreads, kEncodeBlocksAnSm, P::kSharedBytes, P::kBytesInFlight};
}

Budget hata_score_budget() {
  return Budget{kThreads, kBlocksAnSm, sizeof(Group), kKeys * (16 + 2)};
}

}  // namespace kvlane::kernels::cuda
