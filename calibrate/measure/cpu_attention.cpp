#include <cmath>
#include <memory>

#include "calibrate/measure/cpu_operands.h"
#include "kernels/decode_attention/kernel.h"
#include "kernels/prefill_attention/kernel.h"
#include "kernels/sparse_attention/kernel.h"

namespace kvlane::calibrate {
namespace {

float scale_of(int width) { return 1 / std::sqrt(static_cast<float>(width)); }

Call prefill(const Sample& shape, CpuOperands& operands) {
  const bool prefix = shape.kernel == "prefix_attention";
  const int sequences = size_in(shape, "sequences"), width = size_in(shape, "head_width");
  const int heads = size_in(shape, "query_heads");
  const int chunk = size_in(shape, prefix ? "new_tokens" : "tokens");
  const int all = chunk + (prefix ? size_in(shape, "cached_tokens") : 0);
  auto cache = paged_cache(operands, sequences, all, size_in(shape, "kv_heads"), width);
  auto added = std::make_shared<std::vector<std::int32_t>>(sequences, chunk);
  kernels::PrefillAttention args;
  args.sequences = sequences;
  args.query_heads = heads;
  args.new_tokens = added->data();
  args.kv_tokens = cache->tokens.data();
  args.kv = cache->kv;
  args.scale = scale_of(width);
  const double values = static_cast<double>(sequences) * chunk * heads * width;
  args.query = operands.in(values);
  args.out = operands.out(values);
  if (args.kv.rows == nullptr || args.query == nullptr || args.out == nullptr) return {};
  return [args, cache, added, &cpu = operands.cpu] { kernels::cpu::prefill_attention(args, cpu); };
}

Call decode(const Sample& shape, CpuOperands& operands) {
  const int sequences = size_in(shape, "sequences"), width = size_in(shape, "head_width");
  const int heads = size_in(shape, "query_heads");
  auto cache = paged_cache(operands, sequences, size_in(shape, "kv_tokens"),
                           size_in(shape, "kv_heads"), width);
  kernels::DecodeAttention args;
  args.sequences = sequences;
  args.query_heads = heads;
  args.kv_tokens = cache->tokens.data();
  args.kv = cache->kv;
  args.scale = scale_of(width);
  const double values = static_cast<double>(sequences) * heads * width;
  args.query = operands.in(values);
  args.out = operands.out(values);
  if (args.kv.rows == nullptr || args.query == nullptr || args.out == nullptr) return {};
  return [args, cache, &cpu = operands.cpu] { kernels::cpu::decode_attention(args, cpu); };
}

Call sparse(const Sample& shape, CpuOperands& operands) {
  const int sequences = size_in(shape, "sequences"), width = size_in(shape, "head_width");
  const int heads = size_in(shape, "query_heads"), kv_heads = size_in(shape, "kv_heads");
  const int tokens = size_in(shape, "kv_tokens"), selected = size_in(shape, "selected_tokens");
  auto cache = paged_cache(operands, sequences, tokens, kv_heads, width);
  auto index = std::make_shared<std::vector<std::int32_t>>(
      selection(operands, sequences * kv_heads, tokens, selected, size_in(shape, "run_tokens")));
  kernels::SparseAttention args;
  args.sequences = sequences;
  args.query_heads = heads;
  args.kv_tokens = cache->tokens.data();
  args.kv = cache->kv;
  args.index = index->data();
  args.index_width = selected;
  args.scale = scale_of(width);
  const double values = static_cast<double>(sequences) * heads * width;
  args.query = operands.in(values);
  args.out = operands.out(values);
  if (args.kv.rows == nullptr || args.query == nullptr || args.out == nullptr) return {};
  return [args, cache, index, &cpu = operands.cpu] { kernels::cpu::sparse_attention(args, cpu); };
}

}  // namespace

Call attention_call(const Sample& shape, CpuOperands& operands) {
  if (shape.kernel == "prefill_attention" || shape.kernel == "prefix_attention")
    return prefill(shape, operands);
  if (shape.kernel == "decode_attention") return decode(shape, operands);
  if (shape.kernel == "sparse_attention") return sparse(shape, operands);
  return {};
}

}  // namespace kvlane::calibrate
