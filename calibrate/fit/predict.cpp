#include "calibrate/fit/predict.h"

#include "sim/gpu/sample_cost.h"

namespace kvlane::calibrate {
namespace {

constexpr double kL2Share = 1.2;  // sets that exceed the cache by less are still partly in it

double element_bytes(const Sample& sample) {
  return sample.dtype == "fp8" || sample.dtype == "int8" ? 1 : 2;
}

}  // namespace

std::optional<double> predict(const GpuSpec& gpu, const Sample& sample) {
  return SampleCost(gpu).seconds(sample);
}

bool in_domain(const GpuSpec& gpu, const Sample& sample) {
  if (is_own(sample)) return true;
  const auto size = [&](const char* name) { return static_cast<double>(dimension(sample, name)); };
  if (sample.kernel == "gemm") {
    const double m = size("m"), n = size("n"), k = size("k");
    if (n < 2048 || k < 2048 || m > 16384) return false;
    const double bytes = element_bytes(sample) * (m * k + n * k) + 2 * m * n;
    return bytes <= sample.seconds * gpu.memory_bandwidth;
  }
  if (sample.kernel == "prefill_attention") {
    return size("query_heads") >= 8 && size("kv_heads") <= 8 && size("tokens") >= 64;
  }
  if (sample.kernel == "prefix_attention") {
    return size("new_tokens") >= 16 && size("cached_tokens") >= 1;
  }
  return true;
}

bool beyond_l2(const GpuSpec& gpu, const Sample& sample) {
  if (sample.kernel != "decode_attention" || is_own(sample)) return true;
  const auto size = [&](const char* name) { return static_cast<double>(dimension(sample, name)); };
  const double bytes = 2 * element_bytes(sample) * size("sequences") * size("kv_tokens") *
                       size("kv_heads") * size("head_width");
  return bytes > kL2Share * static_cast<double>(gpu.l2.count());
}

}  // namespace kvlane::calibrate
