#include <cmath>

#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

using kernels::HataCode;
using Numbers = std::vector<std::int32_t>;

Call encode(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::HataEncode args;
  args.tokens = size_in(shape, "tokens");
  args.heads = size_in(shape, "heads");
  args.kv_heads = size_in(shape, "kv_heads");
  args.head_dim = size_in(shape, "head_width");
  const double vectors = static_cast<double>(args.tokens) * args.heads;
  args.x = operands.in(vectors * args.head_dim);
  args.weights = operands.in<float>(static_cast<double>(args.kv_heads) * args.head_dim * 128);
  args.codes = operands.out<HataCode>(vectors);
  args.norms = operands.out<std::uint16_t>(vectors);
  return backend.hata_encode(args);
}

Call score(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::HataScore args;
  args.sequences = size_in(shape, "sequences");
  args.query_heads = size_in(shape, "query_heads");
  args.kv_heads = size_in(shape, "kv_heads");
  args.width = size_in(shape, "kv_tokens");
  args.kv_tokens = operands.list(Numbers(static_cast<std::size_t>(args.sequences), args.width));
  const double rows = static_cast<double>(args.sequences) * args.kv_heads * args.width;
  args.query_codes = operands.in<HataCode>(static_cast<double>(args.sequences) * args.query_heads);
  args.key_codes = operands.in<HataCode>(rows);
  args.key_norms = operands.in<std::uint16_t>(rows);
  args.scores = operands.out<float>(rows);
  return backend.hata_score(args);
}

Call project(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::InfinigenProject args;
  args.tokens = size_in(shape, "tokens");
  args.heads = size_in(shape, "heads");
  args.kv_heads = size_in(shape, "kv_heads");
  args.head_dim = size_in(shape, "head_width");
  args.channels_kept = size_in(shape, "channels");
  Numbers channels;
  for (int head = 0; head < args.kv_heads; ++head) {
    // Spread over the head, as large channels are.
    for (int c = 0; c < args.channels_kept; ++c)
      channels.push_back(c * args.head_dim / args.channels_kept);
  }
  args.channels = operands.list(channels);
  const double vectors = static_cast<double>(args.tokens) * args.heads;
  args.x = operands.in(vectors * args.head_dim);
  args.skew =
      operands.in<float>(static_cast<double>(args.kv_heads) * args.head_dim * args.head_dim);
  args.partial = operands.out(vectors * args.channels_kept);
  return backend.infinigen_project(args);
}

Call infinigen(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::InfinigenScore args;
  args.sequences = size_in(shape, "sequences");
  args.query_heads = size_in(shape, "query_heads");
  args.kv_heads = size_in(shape, "kv_heads");
  args.channels_kept = size_in(shape, "channels");
  args.width = size_in(shape, "kv_tokens");
  args.kv_tokens = operands.list(Numbers(static_cast<std::size_t>(args.sequences), args.width));
  args.cap = args.width / 5;
  args.scale = 1 / std::sqrt(static_cast<float>(args.channels_kept));
  const double rows = static_cast<double>(args.sequences) * args.kv_heads * args.width;
  args.query =
      operands.in(static_cast<double>(args.sequences) * args.query_heads * args.channels_kept);
  args.keys = operands.in(rows * args.channels_kept);
  args.scores = operands.out<float>(rows);
  args.take = operands.out<std::int32_t>(1);
  return backend.infinigen_score(args);
}

Call topk(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::TopK args;
  args.rows = size_in(shape, "rows");
  args.width = size_in(shape, "width");
  args.k = size_in(shape, "chosen");
  args.scores = operands.in<float>(static_cast<double>(args.rows) * args.width);
  args.index = operands.out<std::int32_t>(static_cast<double>(args.rows) * args.k);
  args.count = operands.out<std::int32_t>(args.rows);
  return backend.topk(args);
}

// Half of the blocks are local, as after a transfer that was cut in the middle.
Call split(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::IndexSplit args;
  args.sequences = size_in(shape, "sequences");
  args.kv_heads = size_in(shape, "kv_heads");
  args.index_width = size_in(shape, "index_width");
  args.block_tokens = kBlockTokens;
  const int tokens = size_in(shape, "kv_tokens");
  args.blocks = (tokens + kBlockTokens - 1) / kBlockTokens;
  args.index = operands.list(
      selection(operands, args.sequences * args.kv_heads, tokens, args.index_width, 1));
  std::vector<std::uint8_t> mask;
  for (int block = 0; block < args.sequences * args.blocks; ++block) {
    mask.push_back((operands.random() & 1U) != 0 ? 1 : 2);
  }
  args.block_mask = operands.list(mask);
  const double rows = static_cast<double>(args.sequences) * args.kv_heads;
  args.split = operands.out<std::int32_t>(rows * args.index_width);
  args.local_count = operands.out<std::int32_t>(rows);
  return backend.index_split(args);
}

}  // namespace

Call selection_call(const Sample& shape, Backend& backend) {
  if (shape.kernel == "hata_encode") return encode(shape, backend);
  if (shape.kernel == "hata_score") return score(shape, backend);
  if (shape.kernel == "infinigen_project") return project(shape, backend);
  if (shape.kernel == "infinigen_score") return infinigen(shape, backend);
  if (shape.kernel == "topk") return topk(shape, backend);
  if (shape.kernel == "index_split") return split(shape, backend);
  return {};
}

}  // namespace kvlane::calibrate
