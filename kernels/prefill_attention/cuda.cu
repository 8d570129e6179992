// Causal attention of new tokens over a paged KV cache.
//
// Versions
//   1. a warp a query, as decode attention: K and V are read from L2 once a query, 1 FLOP a byte.
//   2. a tile of queries in shared memory, FMAs (cuda_plain.h; kept for fp32): 64 FLOP a byte.
//   3. (here, 16 bits: cuda_tensor.h) tensor cores as in FlashAttention-2 (arXiv 2307.08691): a
//      warp has 32 rows (16 at d 256) and all keys of a step, weights stay in registers, logits are
//      never written. The query heads of a kv head share a tile. K and V by cp.async, 16 bytes a
//      copy, each on its way while tensor cores work on the other. Maxima that do not rise cost no
//      rescaling. Keys are split over blocks (and merged) where there are few rows, as with a short
//      question on a long cached prefix.
//   Next would be wgmma and TMA for Hopper: mma.sync reaches about 62 % of its tensor cores.
//
// Shared-memory traffic: an ldmatrix.x4 (512 bytes) feeds 4 mma of 2048 FMA (2 at d 256), 64 bytes
// a clock on an A100 that can read 128.
// Per block of 128 rows: d 64: 128 threads, 64 keys, 32 KB; d 128: 128 threads, 32 keys, 48 KB;
// d 256: 256 threads, 32 keys, 96 KB. 8 warps an SM at least, on L20 and L4 (100 KB an SM) too.
// In flight: 64 bytes a thread (K or V of a step), 16 KB an SM with two blocks; each tile of keys
// is used 128 times, so memory is idle most of the time: 128 FLOP a byte of L2 traffic and row.
//
// FLOPs: 4 d a query, head and key. 8192 tokens, 32 heads, d 128, causal: 0.55 TFLOP. Expected at
// 80 % of peak: A100 (312 TFLOP/s) 2.2 ms, L20 (119.5) 5.8 ms, L4 (121) 5.7 ms, H100 (989, of which
// 62 %) 1.1 ms. Not measured.

#include <algorithm>
#include <cstdint>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/launch.h"
#include "kernels/prefill_attention/cuda.h"
#include "kernels/prefill_attention/cuda_plain.h"
#include "kernels/prefill_attention/cuda_tensor.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr int kKeysASplit = 256;  // at least
constexpr int kMaxSplits = 32;

const char* shape_problem(const PrefillAttention& args, int max_new_tokens, int max_kv_tokens) {
  if (const char* found = cuda::shape_problem(args.kv)) return found;
  if (args.kv.head_dim != 64 && args.kv.head_dim != 128 && args.kv.head_dim != 256) {
    return "a head dimension other than 64, 128 and 256";
  }
  if (args.sequences < 0 || args.sequences > 65535) return "not 0 to 65535 sequences";
  if (const char* found = problem_of_heads(args.query_heads, args.kv.kv_heads)) return found;
  if (args.kv.kv_heads > 65535) return "more than 65535 kv heads";
  if (args.window < 0) return "a negative window";
  if (const char* found = problem_of_soft_cap(args.soft_cap)) return found;
  if (max_new_tokens < 0 || max_kv_tokens < 0) return "a negative number of tokens";
  const long long rows =
      static_cast<long long>(max_new_tokens) * (args.query_heads / args.kv.kv_heads);
  if (rows > 0x3fffffffll) return "more than 2^30 new tokens times heads of a kv head";
  if (args.sequences == 0) return nullptr;
  if (args.new_tokens == nullptr || args.kv_tokens == nullptr) return "no lengths";
  if (max_new_tokens == 0) return nullptr;
  if (args.query == nullptr || args.out == nullptr) return "no query or no output";
  if (reinterpret_cast<std::uintptr_t>(args.query) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(args.out) % 16 != 0) {
    return "query or output at an address that is not a multiple of 16";
  }
  return nullptr;
}

// Beside the dynamic shared memory a number a warp (cuda_rows.h).
template <int kDim>
Budget budget(bool plain) {
  using T = prefill::TensorShape<kDim>;
  using P = prefill::PlainShape<kDim>;
  if (plain) {
    return {P::kThreads, P::kBlocksAnSm, P::kSharedBytes + 16, P::kKeys * kDim * 4 / P::kThreads};
  }
  return {T::kThreads, T::kBlocksAnSm, T::kSharedBytes + 32, T::kCopies * 16};
}

struct Plan {
  int rows, tiles, splits;
};
Plan plan(const PrefillAttention& args, int max_new_tokens, int max_kv_tokens) {
  const bool plain = args.kv.format == Format::fp32;
  Plan p{plain ? prefill::PlainShape<64>::kRows : prefill::TensorShape<64>::kRows, 0, 1};
  p.tiles = (max_new_tokens * (args.query_heads / args.kv.kv_heads) + p.rows - 1) / p.rows;
  const long long blocks = static_cast<long long>(args.sequences) * args.kv.kv_heads * p.tiles;
  if (blocks == 0) return p;
  const long long keys =
      args.window > 0
          ? std::min<long long>(max_kv_tokens, static_cast<long long>(args.window) + p.rows)
          : max_kv_tokens;
  const long long wanted =
      static_cast<long long>(prefill_budget(args.kv.head_dim, args.kv.format).blocks) *
      multiprocessors();
  const long long most = std::min<long long>(kMaxSplits, keys / kKeysASplit);
  p.splits = static_cast<int>(std::max(1ll, std::min(most, wanted / blocks)));
  return p;
}

std::size_t states_of(const PrefillAttention& args, const Plan& p) {
  return static_cast<std::size_t>(args.sequences) * static_cast<std::size_t>(args.kv.kv_heads) *
         static_cast<std::size_t>(p.tiles) * static_cast<std::size_t>(p.splits) *
         static_cast<std::size_t>(p.rows);
}

template <Format kFormat, int kDim>
void run(const PrefillAttention& args, const prefill::Arguments& a, Stream stream) {
  const dim3 grid(static_cast<unsigned>(a.tiles * a.splits),
                  static_cast<unsigned>(args.kv.kv_heads), static_cast<unsigned>(args.sequences));
  const dim3 merge_grid(static_cast<unsigned>(a.tiles), grid.y, grid.z);
  if constexpr (kFormat == Format::fp32) {
    using S = prefill::PlainShape<kDim>;
    launch({grid, S::kThreads, S::kSharedBytes, stream}, prefill::prefill_plain<kDim>, a);
    if (a.splits == 1) return;
    launch({merge_grid, 128, 0, stream}, prefill::merge_splits<kFormat, kDim, S::kRows, S::kKeys>,
           a);
  } else {
    using S = prefill::TensorShape<kDim>;
    launch({grid, S::kThreads, S::kSharedBytes, stream}, prefill::prefill_tensor<kFormat, kDim>, a);
    if (a.splits == 1) return;
    launch({merge_grid, 128, 0, stream}, prefill::merge_splits<kFormat, kDim, S::kRows, S::kKeys>,
           a);
  }
}

template <Format kFormat>
void run(const PrefillAttention& args, const prefill::Arguments& a, Stream stream) {
  switch (args.kv.head_dim) {
    case 64:
      return run<kFormat, 64>(args, a, stream);
    case 128:
      return run<kFormat, 128>(args, a, stream);
    default:
      return run<kFormat, 256>(args, a, stream);
  }
}

}  // namespace

Budget prefill_budget(int head_dim, Format format) {
  const bool plain = format == Format::fp32;
  return head_dim == 64    ? budget<64>(plain)
         : head_dim == 128 ? budget<128>(plain)
                           : budget<256>(plain);
}

std::size_t prefill_attention_workspace(const PrefillAttention& args, int max_new_tokens,
                                        int max_kv_tokens) {
  require(shape_problem(args, max_new_tokens, max_kv_tokens));
  const Plan p = plan(args, max_new_tokens, max_kv_tokens);
  if (p.splits == 1) return 0;
  return states_of(args, p) *
         (sizeof(float2) + static_cast<std::size_t>(args.kv.head_dim) * sizeof(float));
}

void prefill_attention(const PrefillAttention& args, int max_new_tokens, int max_kv_tokens,
                       Workspace workspace, Stream stream) {
  require(shape_problem(args, max_new_tokens, max_kv_tokens));
  if (args.sequences == 0 || max_new_tokens == 0) return;
  if (workspace.bytes < prefill_attention_workspace(args, max_new_tokens, max_kv_tokens)) {
    require("a workspace that is too small");
  }
  const Plan p = plan(args, max_new_tokens, max_kv_tokens);
  prefill::Arguments a{};
  a.query = args.query;
  a.kv = DeviceKv(args.kv);
  a.new_tokens = args.new_tokens;
  a.kv_tokens = args.kv_tokens;
  a.query_heads = args.query_heads;
  a.max_new_tokens = max_new_tokens;
  a.token_limit = std::min(args.kv.table_width * args.kv.block_tokens, max_kv_tokens);
  a.window = args.window;
  a.group = FastDivide(args.query_heads / args.kv.kv_heads);
  a.scale = args.scale;
  a.soft_cap = args.soft_cap;
  a.out = args.out;
  a.tiles = p.tiles;
  a.splits = p.splits;
  if (p.splits > 1) {
    a.partial = static_cast<float*>(workspace.memory);
    a.partial_state = reinterpret_cast<float2*>(
        a.partial + states_of(args, p) * static_cast<std::size_t>(args.kv.head_dim));
  }
  switch (args.kv.format) {
    case Format::bf16:
      return run<Format::bf16>(args, a, stream);
    case Format::fp16:
      return run<Format::fp16>(args, a, stream);
    case Format::fp32:
      return run<Format::fp32>(args, a, stream);
  }
}

}  // namespace kvlane::kernels::cuda
