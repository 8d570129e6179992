#include "sim/gpu/sample_cost.h"

#include <utility>

#include "sim/gpu/kernel_work.h"

namespace kvlane {
namespace {

ModelSpec any_model(double bytes) {
  ModelSpec model;
  model.name = "samples";
  model.hidden = 1;
  model.weight_bytes = model.kv_element_bytes = bytes;
  return model;
}

bool is_fp8(const Sample& sample) { return sample.dtype == "fp8"; }

// Prompts of one launch do not attend to each other: so many times the heads.
AttentionShape heads_of(const Sample& sample) {
  const std::int64_t sequences = dimension(sample, "sequences");
  AttentionShape shape;
  shape.heads = sequences * dimension(sample, "query_heads");
  shape.kv_heads = sequences * dimension(sample, "kv_heads");
  shape.width = dimension(sample, "head_width");
  return shape;
}

DecodeShape decodes_of(const Sample& sample) {
  const double element = is_fp8(sample) ? 1 : 2;
  DecodeShape shape;
  shape.sequences = static_cast<double>(dimension(sample, "sequences"));
  shape.kv_tokens = static_cast<double>(dimension(sample, "kv_tokens"));
  shape.kv_heads = static_cast<double>(dimension(sample, "kv_heads"));
  shape.group = static_cast<double>(dimension(sample, "query_heads")) / shape.kv_heads;
  shape.kv_bytes = 2 * shape.sequences * shape.kv_tokens * shape.kv_heads *
                   static_cast<double>(dimension(sample, "head_width")) * element;
  shape.fp8 = is_fp8(sample);
  return shape;
}

}  // namespace

SampleCost::SampleCost(const GpuSpec& gpu)
    : bf16_(gpu, any_model(2), 1, false), fp8_(gpu, any_model(1), 1, false) {}

std::optional<double> SampleCost::seconds(const Sample& sample) const {
  const GpuSpec& gpu = bf16_.gpu();
  const auto size = [&](const char* name) { return dimension(sample, name); };
  if (const auto cost = gpu.costs.find(sample.kernel); cost != gpu.costs.end()) {
    const auto work = kernel_work(sample);
    return work ? std::optional(seconds_of(cost->second, *work)) : std::nullopt;
  }
  if (sample.kernel == "gemm") {
    if (is_fp8(sample) && gpu.peak_fp8_flops <= 0) return std::nullopt;
    return (is_fp8(sample) ? fp8_ : bf16_).gemm(size("m"), size("n"), size("k"));
  }
  if (sample.kernel == "prefill_attention") {
    return bf16_.prefill_attention(heads_of(sample), size("tokens"));
  }
  if (sample.kernel == "prefix_attention") {
    return bf16_.prefix_attention(heads_of(sample), size("new_tokens"), size("cached_tokens"));
  }
  if (sample.kernel == "decode_attention") {
    if (is_fp8(sample) && gpu.decode_fp8_em <= 0) return std::nullopt;
    return bf16_.decode_attention(decodes_of(sample));
  }
  if (sample.kernel == "mixed_attention") {
    if (gpu.mixed_em <= 0) return std::nullopt;
    AttentionShape shape{size("query_heads"), size("kv_heads"), size("head_width"), 0};
    return bf16_.mixed_attention(shape, size("new_tokens"), size("cached_tokens"),
                                 decodes_of(sample));
  }
  if (sample.kernel == "elementwise") {
    return gpu.small_kernel_t0 +
           static_cast<double>(size("bytes")) / (gpu.elementwise_em * gpu.memory_bandwidth);
  }
  if (sample.kernel == "all_reduce") {
    const auto found = gpu.all_reduce.find(static_cast<int>(size("ranks")));
    if (found == gpu.all_reduce.end()) return std::nullopt;
    const auto& [latency, rate] = found->second;
    return latency + static_cast<double>(size("bytes")) / rate;
  }
  return std::nullopt;
}

std::optional<KernelShape> table_shape(const Sample& sample) {
  const auto size = [&](const char* name) { return dimension(sample, name); };
  const std::int64_t width = is_fp8(sample) ? 8 : 16;
  KernelShape shape;
  if (sample.kernel == "gemm") {
    shape.kernel = KernelClass::gemm;
    shape.sizes = {size("m"), size("n"), size("k")};
    shape.exact = {width, 0, 0};
  } else if (sample.kernel == "prefill_attention") {
    const AttentionShape heads = heads_of(sample);
    shape.kernel = KernelClass::prefill_attention;
    shape.sizes = {size("tokens"), 1, 1};
    shape.exact = {heads.heads, heads.kv_heads, heads.width};
  } else if (sample.kernel == "prefix_attention") {
    const AttentionShape heads = heads_of(sample);
    shape.kernel = KernelClass::prefix_attention;
    shape.sizes = {size("new_tokens"), size("cached_tokens"), 1};
    shape.exact = {heads.heads, heads.kv_heads, heads.width};
  } else if (sample.kernel == "decode_attention") {
    shape.kernel = KernelClass::decode_attention;
    shape.sizes = {size("sequences"), size("kv_tokens"), 1};
    shape.exact = {size("query_heads") / size("kv_heads"), size("kv_heads"),
                   size("head_width") * width};
  } else if (sample.kernel == "all_reduce") {
    shape.kernel = KernelClass::collective;
    shape.sizes = {size("bytes"), 1, 1};
    shape.exact = {size("ranks"), 0, 0};
  } else {
    return std::nullopt;
  }
  return shape;
}

}  // namespace kvlane
