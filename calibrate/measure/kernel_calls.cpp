#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {

Call kernel_call(const Sample& shape, Backend& backend) {
  for (const auto family : {attention_call, selection_call, hack_call, layer_call}) {
    if (Call call = family(shape, backend)) return call;
  }
  return {};
}

kernels::KvGather gather_arguments(const Sample& shape, Operands& cache, Operands& packed,
                                   Operands& lists) {
  const bool scatter = shape.kernel == "kv_scatter";
  const int sequences = size_in(shape, "sequences"), kv_heads = size_in(shape, "kv_heads");
  const int tokens = size_in(shape, "kv_tokens"), selected = size_in(shape, "selected_tokens");
  kernels::KvGather args;
  args.sequences = sequences;
  args.kv =
      paged_cache(cache, lists, sequences, tokens, kv_heads, size_in(shape, "head_width"), scatter);
  args.kv_tokens =
      lists.list(std::vector<std::int32_t>(static_cast<std::size_t>(sequences), tokens));
  const std::vector<std::int32_t> index =
      selection(lists, sequences * kv_heads, tokens, selected, size_in(shape, "run_tokens"));
  args.index = lists.list(index);
  args.index_width = selected;
  const double bytes = static_cast<double>(index.size()) * static_cast<double>(args.kv.row_bytes());
  // A scatter only reads it.
  args.packed =
      scatter ? const_cast<std::byte*>(packed.in<std::byte>(bytes)) : packed.out<std::byte>(bytes);
  return args;
}

}  // namespace kvlane::calibrate
