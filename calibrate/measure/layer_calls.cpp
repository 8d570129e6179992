#include <numeric>

#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

Call gemm(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::Gemm args;
  args.m = size_in(shape, "m");
  args.n = size_in(shape, "n");
  args.k = size_in(shape, "k");
  args.format = shape.dtype == "fp32" ? kernels::Format::fp32 : kernels::Format::bf16;
  const double m = args.m, n = args.n, k = args.k;
  const auto bytes = static_cast<double>(bytes_of(args.format));
  args.a = operands.in<std::byte>(m * k * bytes);
  args.b = operands.in<std::byte>(n * k * bytes);
  args.out = operands.out<std::byte>(m * n * bytes);
  return backend.gemm(args);
}

Call rms_norm(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::RmsNorm args;
  args.rows = size_in(shape, "rows");
  args.width = size_in(shape, "width");
  const double values = static_cast<double>(args.rows) * args.width;
  args.x = operands.in(values);
  args.weight = operands.in(args.width);
  args.out = operands.out(values);
  return backend.rms_norm(args);
}

Call rope(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::Rope args;
  args.tokens = size_in(shape, "tokens");
  args.heads = size_in(shape, "heads");
  args.head_dim = args.rotary_dim = size_in(shape, "head_width");
  std::vector<std::int32_t> positions(static_cast<std::size_t>(args.tokens));
  std::iota(positions.begin(), positions.end(), 0);
  args.positions = operands.list(positions);
  kernels::RopeFrequencies plain;
  plain.rotary_dim = args.rotary_dim;
  std::vector<float> frequencies(static_cast<std::size_t>(args.rotary_dim / 2));
  kernels::rope_frequencies(plain, frequencies.data());
  args.frequencies = operands.list(frequencies);
  const double values = static_cast<double>(args.tokens) * args.heads * args.head_dim;
  args.x = operands.in(values);
  args.out = operands.out(values);
  return backend.rope(args);
}

Call gated_unit(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::GatedUnit args;
  args.rows = size_in(shape, "rows");
  args.width = size_in(shape, "width");
  const double values = static_cast<double>(args.rows) * args.width;
  args.gate = operands.in(values);
  args.up = operands.in(values);
  args.out = operands.out(values);
  return backend.gated_unit(args);
}

Call embedding(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  constexpr int kWords = 8192;
  kernels::Embedding args;
  args.tokens = size_in(shape, "tokens");
  args.width = size_in(shape, "width");
  args.vocabulary = kWords;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(args.tokens));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(operands.random() % kWords);
  args.ids = operands.list(ids);
  args.table = operands.in(static_cast<double>(kWords) * args.width);
  args.out = operands.out(static_cast<double>(args.tokens) * args.width);
  return backend.embedding(args);
}

Call add(const Sample& shape, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::Add args;
  args.elements = shape.shape[0];
  const auto values = static_cast<double>(args.elements);
  args.a = operands.in(values);
  args.b = operands.in(values);
  args.out = operands.out(values);
  return backend.add(args);
}

}  // namespace

Call layer_call(const Sample& shape, Backend& backend) {
  if (shape.kernel == "gemm") return gemm(shape, backend);
  if (shape.kernel == "rms_norm") return rms_norm(shape, backend);
  if (shape.kernel == "rope") return rope(shape, backend);
  if (shape.kernel == "gated_unit") return gated_unit(shape, backend);
  if (shape.kernel == "embedding") return embedding(shape, backend);
  if (shape.kernel == "add") return add(shape, backend);
  return {};
}

}  // namespace kvlane::calibrate
