#include <cmath>
#include <memory>

#include "calibrate/measure/cpu_operands.h"
#include "kernels/hack/kernel.h"

namespace kvlane::calibrate {
namespace {

using Numbers = std::vector<std::int32_t>;

kernels::HackShape hack_shape(const Sample& shape, int tokens) {
  kernels::HackShape hack;
  hack.bits = size_in(shape, "bits");
  hack.partition = size_in(shape, "partition");
  hack.kv_heads = size_in(shape, "kv_heads");
  hack.head_dim = size_in(shape, "head_width");
  hack.capacity = tokens;
  return hack;
}

struct Append {
  kernels::HackAppend args;
  Numbers first, tokens;
};

// Null where it does not fit.
std::shared_ptr<Append> append_of(const Sample& shape, int sequences, int tokens,
                                  CpuOperands& operands) {
  auto append = std::make_shared<Append>();
  append->first.assign(static_cast<std::size_t>(sequences), 0);
  append->tokens.assign(static_cast<std::size_t>(sequences), tokens);
  kernels::HackAppend& args = append->args;
  args.shape = hack_shape(shape, tokens);
  args.sequences = sequences;
  args.first = append->first.data();
  args.tokens = append->tokens.data();
  const double values =
      static_cast<double>(sequences) * tokens * args.shape.kv_heads * args.shape.head_dim;
  args.keys = operands.in(values);
  args.values = operands.in(values);
  args.store = operands.out<std::byte>(static_cast<double>(sequences) *
                                       static_cast<double>(hack_sequence_bytes(args.shape)));
  if (args.keys == nullptr || args.values == nullptr || args.store == nullptr) return nullptr;
  return append;
}

Call attention(const Sample& shape, CpuOperands& operands) {
  const int sequences = size_in(shape, "sequences"), tokens = size_in(shape, "kv_tokens");
  const auto append = append_of(shape, sequences, tokens, operands);
  if (append == nullptr) return {};
  kernels::HackAttention args;
  args.shape = append->args.shape;
  args.sequences = sequences;
  args.query_heads = size_in(shape, "query_heads");
  const double values = static_cast<double>(sequences) * args.query_heads * args.shape.head_dim;
  args.query = operands.in(values);
  args.store = append->args.store;
  args.kv_tokens = append->tokens.data();
  args.scale = 1 / std::sqrt(static_cast<float>(args.shape.head_dim));
  args.out = operands.out(values);
  if (args.query == nullptr || args.out == nullptr) return {};
  kernels::cpu::hack_append(append->args, operands.cpu);
  const bool dequantise = shape.kernel == "hack_dequantise_attention";
  return [args, append, dequantise, &cpu = operands.cpu] {
    dequantise ? kernels::cpu::hack_dequantise_attention(args, cpu)
               : kernels::cpu::hack_attention(args, cpu);
  };
}

}  // namespace

Call hack_call(const Sample& shape, CpuOperands& operands) {
  if (shape.kernel == "hack_append") {
    const auto append =
        append_of(shape, size_in(shape, "sequences"), size_in(shape, "new_tokens"), operands);
    if (append == nullptr) return {};
    return [append, &cpu = operands.cpu] { kernels::cpu::hack_append(append->args, cpu); };
  }
  if (shape.kernel == "hack_attention" || shape.kernel == "hack_dequantise_attention")
    return attention(shape, operands);
  return {};
}

}  // namespace kvlane::calibrate
