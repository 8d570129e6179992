#include <memory>

#include "calibrate/measure/cpu_operands.h"
#include "kernels/gemm/kernel.h"
#include "kernels/layer/kernel.h"

namespace kvlane::calibrate {
namespace {

Call gemm(const Sample& shape, CpuOperands& operands) {
  kernels::Gemm args;
  args.m = size_in(shape, "m");
  args.n = size_in(shape, "n");
  args.k = size_in(shape, "k");
  args.a = operands.in<float>(static_cast<double>(args.m) * args.k);
  args.b = operands.in<float>(static_cast<double>(args.n) * args.k);
  args.out = operands.out<float>(static_cast<double>(args.m) * args.n);
  if (args.a == nullptr || args.b == nullptr || args.out == nullptr) return {};
  return [args, threads = operands.cpu.threads()] { kernels::cpu::gemm(args, threads); };
}

Call rms_norm(const Sample& shape, CpuOperands& operands) {
  kernels::RmsNorm args;
  args.rows = size_in(shape, "rows");
  args.width = size_in(shape, "width");
  const double values = static_cast<double>(args.rows) * args.width;
  args.x = operands.in(values);
  args.weight = operands.in(args.width);
  args.out = operands.out(values);
  if (args.x == nullptr || args.weight == nullptr || args.out == nullptr) return {};
  return [args, &cpu = operands.cpu] { kernels::cpu::rms_norm(args, cpu); };
}

struct Turn {
  kernels::Rope args;
  std::vector<std::int32_t> positions;
  std::vector<float> frequencies;
};

Call rope(const Sample& shape, CpuOperands& operands) {
  auto turn = std::make_shared<Turn>();
  kernels::Rope& args = turn->args;
  args.tokens = size_in(shape, "tokens");
  args.heads = size_in(shape, "heads");
  args.head_dim = args.rotary_dim = size_in(shape, "head_width");
  for (int token = 0; token < args.tokens; ++token) turn->positions.push_back(token);
  turn->frequencies.resize(static_cast<std::size_t>(args.rotary_dim / 2));
  kernels::RopeFrequencies frequencies;
  frequencies.rotary_dim = args.rotary_dim;
  kernels::rope_frequencies(frequencies, turn->frequencies.data());
  args.positions = turn->positions.data();
  args.frequencies = turn->frequencies.data();
  const double values = static_cast<double>(args.tokens) * args.heads * args.head_dim;
  args.x = operands.in(values);
  args.out = operands.out(values);
  if (args.x == nullptr || args.out == nullptr) return {};
  return [turn, &cpu = operands.cpu] { kernels::cpu::rope(turn->args, cpu); };
}

Call gated_unit(const Sample& shape, CpuOperands& operands) {
  kernels::GatedUnit args;
  args.rows = size_in(shape, "rows");
  args.width = size_in(shape, "width");
  const double values = static_cast<double>(args.rows) * args.width;
  args.gate = operands.in(values);
  args.up = operands.in(values);
  args.out = operands.out(values);
  if (args.gate == nullptr || args.up == nullptr || args.out == nullptr) return {};
  return [args, &cpu = operands.cpu] { kernels::cpu::gated_unit(args, cpu); };
}

Call embedding(const Sample& shape, CpuOperands& operands) {
  constexpr int kWords = 8192;
  kernels::Embedding args;
  args.tokens = size_in(shape, "tokens");
  args.width = size_in(shape, "width");
  args.vocabulary = kWords;
  auto ids = std::make_shared<std::vector<std::int32_t>>();
  for (int token = 0; token < args.tokens; ++token) {
    ids->push_back(static_cast<std::int32_t>(operands.random() % kWords));
  }
  args.ids = ids->data();
  args.table = operands.in(static_cast<double>(kWords) * args.width);
  args.out = operands.out(static_cast<double>(args.tokens) * args.width);
  if (args.table == nullptr || args.out == nullptr) return {};
  return [args, ids, &cpu = operands.cpu] { kernels::cpu::embedding(args, cpu); };
}

Call add(const Sample& shape, CpuOperands& operands) {
  kernels::Add args;
  args.elements = shape.shape[0];
  const auto values = static_cast<double>(args.elements);
  args.a = operands.in(values);
  args.b = operands.in(values);
  args.out = operands.out(values);
  if (args.a == nullptr || args.b == nullptr || args.out == nullptr) return {};
  return [args, &cpu = operands.cpu] { kernels::cpu::add(args, cpu); };
}

}  // namespace

Call layer_call(const Sample& shape, CpuOperands& operands) {
  if (shape.kernel == "gemm") return gemm(shape, operands);
  if (shape.kernel == "rms_norm") return rms_norm(shape, operands);
  if (shape.kernel == "rope") return rope(shape, operands);
  if (shape.kernel == "gated_unit") return gated_unit(shape, operands);
  if (shape.kernel == "embedding") return embedding(shape, operands);
  if (shape.kernel == "add") return add(shape, operands);
  return {};
}

}  // namespace kvlane::calibrate
