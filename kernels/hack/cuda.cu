// HACK: append and attention of one query a sequence on 2, 4 or 8-bit KV.
//
// Versions
//   1. dp4a, a thread an output: four MACs an instruction and head, operands through shared memory;
//      8 heads x 64 tokens x 128 channels are 32 K dp4a for K and V, twice what memory takes.
//   2. (here, cuda_product.h) mma.sync m16n8k32 on bytes: heads are the 8 columns; the order of the
//      terms in k is free, so codes go from where they lie in memory to registers of A with a
//      shift and a mask, and operands are made by the lane that multiplies them. The stored sums of
//      codes turn unsigned bytes on both sides into kernel.h's formula.
//   3. (here) K and V of a partition each are one run of bytes (2.7 KB at 2 bits, partitions of 64,
//      d 128): cp.async, 16 bytes a copy, into the warp's own shared memory, V while K is computed
//      and the next K while V is; the sequence is split over warps and blocks, merged by a second
//      kernel.
//   Next: fewer instructions for operands, which every partition needs anew (its scales differ): at
//   8 heads they are about a third of all, and an H100 has 1500 a partition before they bind.
//
// Bytes: bits / 8 + (4 + s) / partition an element (kernel.h): at 2 bits, 64, 0.33 against 2 in
// bf16. In flight: a side a warp, 10.7 KB a block of 4 warps, 41 KB shared: 2 blocks an SM on L20
// (21 KB, needs 6), 3 on A100 (32, needs 11), 5 by memory and 3 by registers at least on H100 (32,
// needs 18).
// Expected at 80 % of peak: 8 sequences x 8 kv heads x 32 K tokens, d 128, 2 bits: 178 MB; H100
// (3.35 TB/s) 66 us, A100 80 GB (2.04 TB/s) 109 us, L20 (864 GB/s) 257 us, a sixth of bf16's. The
// dequantise variant reads the same bytes, but makes 512 values a lane and partition of 64 x 128,
// about 5 instructions each. Append: K and V read once in 16 bits, 2.7 KB + 2.7 KB written for 32
// KB. Not measured.

#include <algorithm>
#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_device.h"
#include "kernels/common/launch.h"
#include "kernels/hack/cuda.h"
#include "kernels/hack/cuda_append.h"
#include "kernels/hack/cuda_attend.h"

namespace kvlane::kernels::cuda {
namespace {

constexpr std::size_t kSharedLimit = 99 * 1024;  // of a block, compute capability 8.6 and 8.9
constexpr int kMaxSplits = 64;

bool aligned(const void* at, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

const char* shape_problem(const HackAppend& args, int max_new_tokens) {
  if (const char* found = problem(args.shape)) return found;
  if (args.sequences < 0 || args.sequences > 65535) return "not 0 to 65535 sequences";
  if (args.shape.kv_heads > 32767) return "more than 32767 kv heads";
  if (max_new_tokens < 0) return "a negative number of tokens";
  if (args.sequences == 0 || max_new_tokens == 0) return nullptr;
  if (args.first == nullptr || args.tokens == nullptr) return "hack_append: null counts";
  if (args.keys == nullptr || args.values == nullptr || args.store == nullptr) {
    return "hack_append: null tensor";
  }
  if (!aligned(args.store, 64)) return "hack_append: the store is 64-byte aligned";
  if (!aligned(args.keys, 16) || !aligned(args.values, 16)) {
    return "hack_append: keys and values are 16-byte aligned";
  }
  return nullptr;
}

const char* shape_problem(const HackAttention& args, int max_kv_tokens) {
  if (const char* found = problem(args.shape)) return found;
  if (args.sequences < 0 || args.sequences > 65535) return "not 0 to 65535 sequences";
  if (args.query_heads < 1 || args.query_heads % args.shape.kv_heads != 0) {
    return "hack_attention: query heads are a multiple of kv heads";
  }
  if (args.query_heads > 65535) return "more than 65535 query heads";
  if (!std::isfinite(args.scale)) return "hack_attention: the scale is finite";
  if (max_kv_tokens < 0) return "a negative number of tokens";
  if (args.sequences == 0) return nullptr;
  if (args.kv_tokens == nullptr) return "hack_attention: null counts";
  if (args.out == nullptr || args.query == nullptr) return "hack_attention: null tensor";
  if (!aligned(args.query, 16) || !aligned(args.out, 16)) {
    return "hack_attention: query and output are 16-byte aligned";
  }
  if (max_kv_tokens > 0 && args.store == nullptr) return "hack_attention: null store";
  if (!aligned(args.store, 64)) return "hack_attention: the store is 64-byte aligned";
  return nullptr;
}

// Lanes without terms (2 bits, partitions of 32) have a place, too.
std::size_t query_bytes(const HackShape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(hack::kHeads * shape.head_dim) * 4;
  return shape.bits == 2 && shape.partition == 32 ? 2 * bytes : bytes;
}

struct Block {
  int warps;
  std::size_t shared_bytes, side;
};
Block block_of(const HackShape& shape) {
  const std::size_t side = HackLayout(shape).values;
  const std::size_t warp =
      hack::warp_bytes(static_cast<unsigned>(side), shape.partition, shape.head_dim);
  int warps = hack::kMostWarps;
  while (warps > 1 && query_bytes(shape) + static_cast<std::size_t>(warps) * warp >
                          kSharedLimit - 1024) {  // less what the kernel has of its own
    --warps;
  }
  return {warps, query_bytes(shape) + static_cast<std::size_t>(warps) * warp, side};
}

struct Plan {
  int group, chunks, splits, parts_a_split;
};
Plan plan(const HackAttention& args, int max_kv_tokens) {
  Plan p{};
  p.group = args.query_heads / args.shape.kv_heads;
  p.chunks = (p.group + hack::kHeads - 1) / hack::kHeads;
  const int parts = std::max(0, std::min(max_kv_tokens, args.shape.capacity) - args.shape.sinks) /
                    args.shape.partition;
  const long long blocks = static_cast<long long>(args.sequences) * args.shape.kv_heads * p.chunks;
  // Two waves of three blocks an SM; every warp has two partitions at least.
  const long long wanted = 6ll * multiprocessors();
  const long long most = std::min<long long>(kMaxSplits, parts / (2 * block_of(args.shape).warps));
  p.splits = static_cast<int>(std::max(1ll, std::min(most, wanted / std::max(1ll, blocks))));
  p.parts_a_split = std::max(1, (parts + p.splits - 1) / p.splits);
  return p;
}

std::size_t states_of(const HackAttention& args, const Plan& p) {
  return static_cast<std::size_t>(args.sequences) * static_cast<std::size_t>(args.query_heads) *
         static_cast<std::size_t>(p.splits);
}

template <typename Product>
void run(const HackAttention& args, const hack::AttendArguments& a, Stream stream) {
  const Block block = block_of(args.shape);
  launch(
      {dim3(static_cast<unsigned>(a.splits), static_cast<unsigned>(args.shape.kv_heads * a.chunks),
            static_cast<unsigned>(args.sequences)),
       static_cast<unsigned>(block.warps * kWarp), block.shared_bytes, stream},
      hack::hack_attend<Product>, a);
  if (a.splits == 1) return;
  launch({dim3(static_cast<unsigned>(args.query_heads), static_cast<unsigned>(args.sequences)),
          static_cast<unsigned>(args.shape.head_dim), 0, stream},
         hack::hack_merge, a);
}

template <int kBits, int kPartition>
void run(const HackAttention& args, const hack::AttendArguments& a, bool integer, Stream stream) {
  if (integer) return run<hack::IntegerProduct<kBits, kPartition>>(args, a, stream);
  if (args.shape.format == Format::bf16) {
    return run<hack::DequantisedProduct<kBits, kPartition, Format::bf16>>(args, a, stream);
  }
  run<hack::DequantisedProduct<kBits, kPartition, Format::fp16>>(args, a, stream);
}

template <int kBits>
void run(const HackAttention& args, const hack::AttendArguments& a, bool integer, Stream stream) {
  switch (args.shape.partition) {
    case 32:
      return run<kBits, 32>(args, a, integer, stream);
    case 64:
      return run<kBits, 64>(args, a, integer, stream);
    default:
      return run<kBits, 128>(args, a, integer, stream);
  }
}

void attend(const HackAttention& args, int max_kv_tokens, Workspace workspace, bool integer,
            Stream stream) {
  require(shape_problem(args, max_kv_tokens));
  if (args.sequences == 0) return;
  if (workspace.bytes < hack_attention_workspace(args, max_kv_tokens)) {
    require("a workspace that is too small");
  }
  const Plan p = plan(args, max_kv_tokens);
  hack::AttendArguments a{};
  a.layout = hack::DeviceLayout(args.shape);
  a.format = args.shape.format;
  a.query = args.query;
  a.store = static_cast<const unsigned char*>(args.store);
  a.kv_tokens = args.kv_tokens;
  a.token_limit = std::min(max_kv_tokens, args.shape.capacity);
  a.query_heads = args.query_heads;
  a.group = p.group;
  a.chunks = p.chunks;
  a.scale = args.scale;
  a.out = args.out;
  a.splits = p.splits;
  a.parts_a_split = p.parts_a_split;
  if (p.splits > 1) {
    a.partial = static_cast<float*>(workspace.memory);
    a.partial_state = reinterpret_cast<float2*>(
        a.partial + states_of(args, p) * static_cast<std::size_t>(args.shape.head_dim));
  }
  switch (args.shape.bits) {
    case 2:
      return run<2>(args, a, integer, stream);
    case 4:
      return run<4>(args, a, integer, stream);
    default:
      return run<8>(args, a, integer, stream);
  }
}

template <Format kFormat>
void quantise(const hack::AppendArguments& a, const Launch& how, int bits) {
  switch (bits) {
    case 2:
      return launch(how, hack::hack_quantise<kFormat, 2>, a);
    case 4:
      return launch(how, hack::hack_quantise<kFormat, 4>, a);
    default:
      return launch(how, hack::hack_quantise<kFormat, 8>, a);
  }
}

}  // namespace

void hack_append(const HackAppend& args, int max_new_tokens, Stream stream) {
  require(shape_problem(args, max_new_tokens));
  const int most = std::min(max_new_tokens, args.shape.capacity);
  if (args.sequences == 0 || most == 0) return;
  hack::AppendArguments a{};
  a.layout = hack::DeviceLayout(args.shape);
  a.first = args.first;
  a.tokens = args.tokens;
  a.keys = args.keys;
  a.values = args.values;
  a.store = static_cast<unsigned char*>(args.store);
  a.max_new_tokens = most;
  const auto sequences = static_cast<unsigned>(args.sequences);
  const int n = args.shape.partition, dim = args.shape.head_dim;
  const Launch how(dim3(static_cast<unsigned>((most + n - 1) / n),
                        static_cast<unsigned>(2 * args.shape.kv_heads), sequences),
                   static_cast<unsigned>(dim), static_cast<std::size_t>(n * (dim + 4)) * 2, stream);
  if (args.shape.format == Format::bf16) {
    quantise<Format::bf16>(a, how, args.shape.bits);
  } else {
    quantise<Format::fp16>(a, how, args.shape.bits);
  }
  const int sinks = std::min(most, args.shape.sinks);
  launch({dim3(static_cast<unsigned>(sinks + std::min(most, n - 1)), 1, sequences),
          static_cast<unsigned>(hack::kCopyThreads), 0, stream},
         hack::hack_copy, a, sinks);
}

std::size_t hack_attention_workspace(const HackAttention& args, int max_kv_tokens) {
  require(shape_problem(args, max_kv_tokens));
  const Plan p = plan(args, max_kv_tokens);
  if (p.splits == 1) return 0;
  return states_of(args, p) *
         (sizeof(float2) + static_cast<std::size_t>(args.shape.head_dim) * sizeof(float));
}

void hack_attention(const HackAttention& args, int max_kv_tokens, Workspace workspace,
                    Stream stream) {
  attend(args, max_kv_tokens, workspace, true, stream);
}

void hack_dequantise_attention(const HackAttention& args, int max_kv_tokens, Workspace workspace,
                               Stream stream) {
  attend(args, max_kv_tokens, workspace, false, stream);
}

Budget hack_budget(const HackShape& shape) {
  require(problem(shape));
  const Block block = block_of(shape);
  constexpr std::size_t kOwnShared = 448;  // states and factors of cuda_attend.h
  // With 100 KB an SM, of which each block takes 1 KB more than it asks for.
  const std::size_t fit = std::size_t{100} * 1024 / (block.shared_bytes + kOwnShared + 1024);
  return {block.warps * kWarp, static_cast<int>(std::min<std::size_t>(3, fit)),
          block.shared_bytes + kOwnShared, static_cast<int>(block.side / kWarp)};
}

}  // namespace kvlane::kernels::cuda
