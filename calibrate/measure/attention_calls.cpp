#include <cmath>

#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

using Numbers = std::vector<std::int32_t>;

float scale_of(int width) { return 1 / std::sqrt(static_cast<float>(width)); }

// The same for every sequence.
const std::int32_t* each(Operands& operands, int sequences, int number) {
  return operands.list(Numbers(static_cast<std::size_t>(sequences), number));
}

kernels::KvCache cache_of(const Sample& shape, Operands& operands, int tokens) {
  return paged_cache(operands, operands, size_in(shape, "sequences"), tokens,
                     size_in(shape, "kv_heads"), size_in(shape, "head_width"));
}

Call prefill(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  const bool prefix = shape.kernel == "prefix_attention";
  const int chunk = size_in(shape, prefix ? "new_tokens" : "tokens");
  const int all = chunk + (prefix ? size_in(shape, "cached_tokens") : 0);
  kernels::PrefillAttention args;
  args.sequences = size_in(shape, "sequences");
  args.query_heads = size_in(shape, "query_heads");
  args.new_tokens = each(operands, args.sequences, chunk);
  args.kv_tokens = each(operands, args.sequences, all);
  args.kv = cache_of(shape, operands, all);
  args.scale = scale_of(args.kv.head_dim);
  const double values =
      static_cast<double>(args.sequences) * chunk * args.query_heads * args.kv.head_dim;
  args.query = operands.in(values);
  args.out = operands.out(values);
  return backend.prefill_attention(args, chunk, all);
}

Call decode(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  const int tokens = size_in(shape, "kv_tokens");
  kernels::DecodeAttention args;
  args.sequences = size_in(shape, "sequences");
  args.query_heads = size_in(shape, "query_heads");
  args.kv_tokens = each(operands, args.sequences, tokens);
  args.kv = cache_of(shape, operands, tokens);
  args.scale = scale_of(args.kv.head_dim);
  const double values = static_cast<double>(args.sequences) * args.query_heads * args.kv.head_dim;
  args.query = operands.in(values);
  args.out = operands.out(values);
  return backend.decode_attention(args, tokens);
}

Call sparse(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  const int tokens = size_in(shape, "kv_tokens");
  kernels::SparseAttention args;
  args.sequences = size_in(shape, "sequences");
  args.query_heads = size_in(shape, "query_heads");
  args.kv_tokens = each(operands, args.sequences, tokens);
  args.kv = cache_of(shape, operands, tokens);
  args.index_width = size_in(shape, "selected_tokens");
  args.index = operands.list(selection(operands, args.sequences * args.kv.kv_heads, tokens,
                                       args.index_width, size_in(shape, "run_tokens")));
  args.scale = scale_of(args.kv.head_dim);
  const double values = static_cast<double>(args.sequences) * args.query_heads * args.kv.head_dim;
  args.query = operands.in(values);
  args.out = operands.out(values);
  return backend.sparse_attention(args);
}

}  // namespace

Call attention_call(const Sample& shape, Backend& backend) {
  if (shape.kernel == "prefill_attention" || shape.kernel == "prefix_attention")
    return prefill(shape, backend);
  if (shape.kernel == "decode_attention") return decode(shape, backend);
  if (shape.kernel == "sparse_attention") return sparse(shape, backend);
  return {};
}

}  // namespace kvlane::calibrate
