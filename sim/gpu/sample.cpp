#include "sim/gpu/sample.h"

#include <algorithm>
#include <stdexcept>

#include "sim/base/rng.h"

namespace kvlane {
namespace {

struct Kernel {
  std::string name;
  std::vector<std::string> dimensions;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> list = {
      {"gemm", {"m", "n", "k"}},
      {"prefill_attention", {"sequences", "tokens", "query_heads", "kv_heads", "head_width"}},
      {"prefix_attention",
       {"sequences", "new_tokens", "cached_tokens", "query_heads", "kv_heads", "head_width"}},
      {"decode_attention", {"sequences", "kv_tokens", "query_heads", "kv_heads", "head_width"}},
      {"mixed_attention",
       {"new_tokens", "cached_tokens", "sequences", "kv_tokens", "query_heads", "kv_heads",
        "head_width"}},
      {"elementwise", {"bytes"}},
      {"sampler", {"sequences", "vocabulary"}},
      {"all_reduce", {"bytes", "ranks"}},
      {"all_gather", {"bytes", "ranks"}},
      {"reduce_scatter", {"bytes", "ranks"}},
      {"all_to_all", {"bytes", "ranks"}},
      {"send_recv", {"bytes", "ranks"}},
      {"nic_message", {"bytes", "queue_pairs"}},
      {"nic_latency", {"bytes"}},
      {"kv_transfer", {"bytes", "ports"}},
      {"copy", {"bytes"}},
      {"read", {"bytes"}},
      {"sparse_attention",
       {"sequences", "kv_tokens", "selected_tokens", "run_tokens", "query_heads", "kv_heads",
        "head_width"}},
      {"kv_gather",
       {"sequences", "kv_tokens", "selected_tokens", "run_tokens", "kv_heads", "head_width"}},
      {"kv_scatter",
       {"sequences", "kv_tokens", "selected_tokens", "run_tokens", "kv_heads", "head_width"}},
      {"hata_encode", {"tokens", "heads", "kv_heads", "head_width"}},
      {"hata_score", {"sequences", "kv_tokens", "query_heads", "kv_heads"}},
      {"infinigen_project", {"tokens", "heads", "kv_heads", "head_width", "channels"}},
      {"infinigen_score", {"sequences", "kv_tokens", "query_heads", "kv_heads", "channels"}},
      {"topk", {"rows", "width", "chosen"}},
      {"index_split", {"sequences", "kv_heads", "index_width", "kv_tokens"}},
      {"hack_append", {"sequences", "new_tokens", "kv_heads", "head_width", "bits", "partition"}},
      {"hack_attention",
       {"sequences", "kv_tokens", "query_heads", "kv_heads", "head_width", "bits", "partition"}},
      {"hack_dequantise_attention",
       {"sequences", "kv_tokens", "query_heads", "kv_heads", "head_width", "bits", "partition"}},
      {"rms_norm", {"rows", "width"}},
      {"gated_unit", {"rows", "width"}},
      {"rope", {"tokens", "heads", "head_width"}},
      {"embedding", {"tokens", "width"}},
      {"add", {"elements"}},
      {"serving_prefill", {"sequences", "prompt_tokens", "ranks"}},
      {"serving_step", {"sequences", "prompt_tokens", "output_tokens", "ranks"}},
      {"serving_batch", {"sequences", "prompt_tokens", "output_tokens", "ranks"}},
  };
  return list;
}

}  // namespace

const std::vector<std::string>& sample_kernels() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Kernel& kernel : kernels()) all.push_back(kernel.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& sample_dimensions(std::string_view kernel) {
  static const std::vector<std::string> none;
  for (const Kernel& known : kernels()) {
    if (known.name == kernel) return known.dimensions;
  }
  return none;
}

bool is_own(const Sample& sample) { return sample.source.rfind("measured", 0) == 0; }

std::int64_t dimension(const Sample& sample, std::string_view name) {
  const std::vector<std::string>& names = sample_dimensions(sample.kernel);
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end() || sample.shape.size() != names.size()) {
    throw std::logic_error(sample.kernel + " has no dimension " + std::string(name));
  }
  return sample.shape[static_cast<std::size_t>(at - names.begin())];
}

std::string shape_text(const Sample& sample) {
  std::string text;
  const auto& names = sample_dimensions(sample.kernel);
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : " ") + names[i] + '=' + std::to_string(sample.shape[i]);
  }
  return text;
}

bool held_out(const Sample& sample) {
  std::string key = sample.kernel + '/' + sample.dtype;
  for (const std::int64_t size : sample.shape) key += ',' + std::to_string(size);
  // FNV's lowest bit is a parity of the text's bits: the upper half is well mixed.
  return (fnv1a(key) >> 40U & 1U) != 0;
}

}  // namespace kvlane
