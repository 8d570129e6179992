#include <cmath>

#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

kernels::HackAppend append_of(const Sample& shape, const char* added, Operands& operands) {
  const int tokens = size_in(shape, added);
  kernels::HackAppend args;
  args.shape.bits = size_in(shape, "bits");
  args.shape.partition = size_in(shape, "partition");
  args.shape.kv_heads = size_in(shape, "kv_heads");
  args.shape.head_dim = size_in(shape, "head_width");
  args.shape.capacity = tokens;
  args.sequences = size_in(shape, "sequences");
  const auto sequences = static_cast<std::size_t>(args.sequences);
  args.first = operands.list(std::vector<std::int32_t>(sequences, 0));
  args.tokens = operands.list(std::vector<std::int32_t>(sequences, tokens));
  const double values =
      static_cast<double>(args.sequences) * tokens * args.shape.kv_heads * args.shape.head_dim;
  args.keys = operands.in(values);
  args.values = operands.in(values);
  args.store = operands.out<std::byte>(static_cast<double>(args.sequences) *
                                       static_cast<double>(hack_sequence_bytes(args.shape)));
  return args;
}

// Over a store that the backend fills here.
Call attention(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  const int tokens = size_in(shape, "kv_tokens");
  const kernels::HackAppend append = append_of(shape, "kv_tokens", operands);
  kernels::HackAttention args;
  args.shape = append.shape;
  args.sequences = append.sequences;
  args.query_heads = size_in(shape, "query_heads");
  const double values =
      static_cast<double>(args.sequences) * args.query_heads * args.shape.head_dim;
  args.query = operands.in(values);
  args.store = append.store;
  args.kv_tokens = append.tokens;
  args.scale = 1 / std::sqrt(static_cast<float>(args.shape.head_dim));
  args.out = operands.out(values);
  Call call = shape.kernel == "hack_attention" ? backend.hack_attention(args, tokens)
                                               : backend.hack_dequantise_attention(args, tokens);
  if (call) backend.hack_append(append, tokens)();
  return call;
}

}  // namespace

Call hack_call(const Sample& shape, Backend& backend) {
  if (shape.kernel == "hack_append") {
    const kernels::HackAppend args = append_of(shape, "new_tokens", backend.operands());
    return backend.hack_append(args, size_in(shape, "new_tokens"));
  }
  if (shape.kernel == "hack_attention" || shape.kernel == "hack_dequantise_attention")
    return attention(shape, backend);
  return {};
}

}  // namespace kvlane::calibrate
