// InfiniGen's projection of queries and keys on the kept channels: products of cuda_products.h with
// columns of the skew that an index names, 32 of them a block.
//
// Bytes: vectors once for 32 channels (d 128 in bf16: 256 read, 64 written a vector); the skew from
// L2. 2 d d' operations a vector: 32 K tokens x 8 kv heads x 128 x 32 are 2.1 GFLOP: at 80 % of an
// H100's 67 TFLOP/s 40 us, of which its memory needs 31 us for 84 MB. Decoding (8 tokens) is 8
// dependent steps over L2, about 10 us. In flight: 64 a thread, 3 blocks of 128 threads: 24 KiB an
// SM. Not measured. The scores are in cuda_score.cu.

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/cuda_products.h"
#include "kernels/common/launch.h"
#include "kernels/infinigen/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kBlocksAnSm = 3;

struct Arguments {
  InfinigenProject project;
  FastDivide group;
  int vectors;  // of a kv head
  bool aligned;
};

template <Format kFormat, bool kShareElements>
using Project = Products<kFormat, 8, kShareElements>;

// Blocks: x the vectors, y the kv head, z the channels.
template <Format kFormat, bool kShareElements>
__global__ void __launch_bounds__(128, kBlocksAnSm)
    infinigen_project_tile(const __grid_constant__ Arguments a) {
  using P = Project<kFormat, kShareElements>;
  const InfinigenProject& args = a.project;
  const int kv_head = static_cast<int>(blockIdx.y), first = static_cast<int>(blockIdx.x) * P::kTile;
  const typename P::Vectors vectors{
      args.x,  a.vectors, args.head_dim, args.heads, kv_head * a.group.divisor(),
      a.group, a.aligned};
  const auto dim = static_cast<unsigned>(args.head_dim);
  const float* skew = args.skew + static_cast<std::size_t>(kv_head) * dim * dim;
  const int channel = static_cast<int>(blockIdx.z) * P::kColumns + P::column_lane() * 4;
  int column[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // Past the last: the last again, not stored.
    const std::size_t at =
        static_cast<std::size_t>(kv_head) * static_cast<unsigned>(args.channels_kept) +
        static_cast<unsigned>(min(channel + e, args.channels_kept - 1));
    column[e] = max(0, min(args.channels[at], args.head_dim - 1));
  }
  P::run(
      vectors, first,
      [&](int k) {
        const float* row = skew + static_cast<unsigned>(k) * dim;
        return float4{__ldg(row + column[0]), __ldg(row + column[1]), __ldg(row + column[2]),
                      __ldg(row + column[3])};
      },
      [](const typename P::Tile&) {},
      [&](int i, float4 sum) {
        const int vector = first + P::finished(i);
        if (vector >= vectors.count) return;
        const std::size_t to = vectors.row(vector) * static_cast<unsigned>(args.channels_kept) +
                               static_cast<unsigned>(channel);
        const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (channel + e < args.channels_kept) {
            store_element<kFormat>(args.partial, to + static_cast<unsigned>(e), values[e]);
          }
        }
      });
}

template <Format kFormat>
void project(const Arguments& a, Stream stream) {
  const auto heads = static_cast<unsigned>(a.project.kv_heads);
  constexpr int kColumns = Project<kFormat, false>::kColumns;
  const auto columns = static_cast<unsigned>((a.project.channels_kept + kColumns - 1) / kColumns);
  const auto tiles = [&](int tile) { return static_cast<unsigned>((a.vectors + tile - 1) / tile); };
  // Few vectors: smaller tiles, and the warps of a block share the elements.
  const unsigned large = tiles(Project<kFormat, false>::kTile);
  if (large * heads * columns < 2u * static_cast<unsigned>(multiprocessors())) {
    const dim3 grid(tiles(Project<kFormat, true>::kTile), heads, columns);
    launch({grid, 128, 0, stream}, infinigen_project_tile<kFormat, true>, a);
  } else {
    launch({dim3(large, heads, columns), 128, 0, stream}, infinigen_project_tile<kFormat, false>,
           a);
  }
}

const char* shape_problem(const InfinigenProject& args) {
  if (args.tokens < 0) return "a negative number of tokens";
  if (args.kv_heads <= 0 || args.heads <= 0 || args.heads % args.kv_heads != 0) {
    return "heads that are not a multiple of the kv heads";
  }
  if (args.kv_heads > 65535) return "more than 65535 kv heads";
  if (args.head_dim <= 0) return "a head dimension that is not positive";
  if (args.head_dim > 32768) return "a head dimension above 32768";
  if (args.channels_kept <= 0 || args.channels_kept > args.head_dim) {
    return "kept channels outside 1 ... head_dim";
  }
  if (args.skew == nullptr || args.channels == nullptr) return "no skew or no channels";
  if (args.tokens > 0 && (args.x == nullptr || args.partial == nullptr)) {
    return "no vectors or no output";
  }
  if (static_cast<long long>(args.tokens) * args.heads > 0x7fffffffll - 128) {
    return "more than 2^31 vectors";
  }
  return nullptr;
}

}  // namespace

void infinigen_project(const InfinigenProject& args, Stream stream) {
  require(shape_problem(args));
  if (args.tokens == 0) return;
  const int group = args.heads / args.kv_heads;
  const auto row_bytes = static_cast<std::size_t>(args.head_dim) * bytes_of(args.format);
  const Arguments a{args, FastDivide(group), args.tokens * group,
                    row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0};
  switch (args.format) {
    case Format::fp32:
      return project<Format::fp32>(a, stream);
    case Format::fp16:
      return project<Format::fp16>(a, stream);
    case Format::bf16:
      return project<Format::bf16>(a, stream);
  }
}

Budget infinigen_project_budget() {
  using P = Project<Format::bf16, false>;
  return Budget{P::kThreads, kBlocksAnSm, P::kSharedBytes, P::kBytesInFlight};
}

}  // namespace kvlane::kernels::cuda
