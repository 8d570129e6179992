#include "sim/gpu/gpu_spec.h"

#include <algorithm>

namespace kvlane {

const char* to_string(Source source) {
  switch (source) {
    case Source::measured:
      return "measured";
    case Source::table:
      return "table";
    case Source::extrapolated:
      return "extrapolated";
    case Source::datasheet:
      return "datasheet";
    case Source::assumed:
      break;
  }
  return "assumed";
}

const char* to_string(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::gemm:
      return "gemm";
    case KernelClass::prefill_attention:
      return "prefill_attention";
    case KernelClass::prefix_attention:
      return "prefix_attention";
    case KernelClass::decode_attention:
      return "decode_attention";
    case KernelClass::selection:
      return "selection";
    case KernelClass::quantise:
      return "quantise";
    case KernelClass::small:
      return "small";
    case KernelClass::collective:
      return "collective";
    case KernelClass::copy:
      return "copy";
    case KernelClass::host:
      break;
  }
  return "host";
}

const std::vector<std::string>& domain_dimensions(KernelClass kernel) {
  static const std::vector<std::string> gemm = {"m", "n", "k"};
  static const std::vector<std::string> prefill = {"tokens"};
  static const std::vector<std::string> prefix = {"new_tokens", "cached_tokens"};
  static const std::vector<std::string> decode = {"sequences", "kv_tokens"};
  static const std::vector<std::string> collective = {"bytes"};
  static const std::vector<std::string> none;
  switch (kernel) {
    case KernelClass::gemm:
      return gemm;
    case KernelClass::prefill_attention:
      return prefill;
    case KernelClass::prefix_attention:
      return prefix;
    case KernelClass::decode_attention:
      return decode;
    case KernelClass::collective:
      return collective;
    default:
      return none;
  }
}

Source weakest_source(const GpuSpec& gpu) {
  if (gpu.source.empty()) return Source::assumed;
  Source weakest = Source::measured;
  for (const auto& [key, source] : gpu.source) weakest = std::max(weakest, source);
  return weakest;
}

}  // namespace kvlane
