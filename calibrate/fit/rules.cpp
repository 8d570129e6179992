#include "calibrate/fit/rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "calibrate/fit/predict.h"

namespace kvlane::calibrate {
namespace {

using Member = double GpuSpec::*;

std::function<double&(GpuSpec&)> member(Member at) {
  return [at](GpuSpec& gpu) -> double& { return gpu.*at; };
}

// Launches take microseconds; below 10 ns there is none.
Constant launch(const char* key, Member at) {
  return {key, ValueUnit::time, member(at), 1e-8, 1e-4, {6e-6}, true};
}
// Shares of a datasheet peak: boost clocks can exceed it a little.
Constant share(const char* key, Member at, double high = 1.2) {
  return {key, ValueUnit::share, member(at), 0.02, high, {0.7}};
}
// 1 is a sum, 100 as good as a hard maximum. Both kinds of start, since a fit may get stuck.
Constant exponent(const char* key, Member at) {
  return {key, ValueUnit::number, member(at), 1, 100, {1.5, 5}};
}
// Times a block or key.
Constant step(const char* key, Member at, double start) {
  return {key, ValueUnit::time, member(at), 1e-11, 1e-5, {start}, true};
}
Constant amount(const char* key, Member at, double low, double high, double start) {
  return {key, ValueUnit::number, member(at), low, high, {start}, true};
}

FitRule rule(const char* name, const char* kernel, KernelClass kernel_class,
             std::vector<Constant> constants) {
  FitRule r;
  r.name = name;
  r.kernel = kernel;
  r.kernel_class = kernel_class;
  r.constants = std::move(constants);
  return r;
}

FitRule without_error(FitRule r, bool fp8) {
  r.states_error = false;
  r.fp8 = fp8;
  return r;
}

FitRule all_reduce(std::int64_t ranks) {
  const auto degree = static_cast<int>(ranks);
  FitRule r = rule("", "all_reduce", KernelClass::collective, {});
  r.name = "all_reduce over " + std::to_string(ranks);
  r.ranks = ranks;
  const std::string key = "all_reduce." + std::to_string(ranks);
  r.constants = {{key + ".latency",
                  ValueUnit::time,
                  [degree](GpuSpec& gpu) -> double& { return gpu.all_reduce[degree].first; },
                  1e-7,
                  1e-2,
                  {1e-5}},
                 {key + ".rate",
                  ValueUnit::byte_rate,
                  [degree](GpuSpec& gpu) -> double& { return gpu.all_reduce[degree].second; },
                  1e7,
                  1e13,
                  {1e11}}};
  return r;
}

}  // namespace

std::vector<FitRule> fit_rules(const std::vector<Sample>& samples) {
  using G = GpuSpec;
  std::vector<FitRule> rules = {
      rule("gemm", "gemm", KernelClass::gemm,
           {launch("gemm_t0", &G::gemm_t0), share("gemm_ec", &G::gemm_ec),
            share("gemm_em", &G::gemm_em), exponent("gemm_p", &G::gemm_p)}),
      without_error(
          rule("gemm_fp8", "gemm", KernelClass::gemm,
               {launch("gemm_fp8_t0", &G::gemm_fp8_t0), share("gemm_fp8_ec", &G::gemm_fp8_ec),
                share("gemm_fp8_em", &G::gemm_fp8_em), exponent("gemm_fp8_p", &G::gemm_fp8_p)}),
          true),
      // Short prompts are read from L2, faster than from memory.
      rule("prefill_attention", "prefill_attention", KernelClass::prefill_attention,
           {launch("prefill_t0", &G::prefill_t0), share("prefill_ec", &G::prefill_ec),
            share("prefill_em", &G::prefill_em, 3), exponent("prefill_p", &G::prefill_p),
            amount("prefill_s0", &G::prefill_s0, 0.1, 1e4, 30),
            amount("prefill_w0", &G::prefill_w0, 1e-3, 100, 0.4)}),
      rule("decode_attention", "decode_attention", KernelClass::decode_attention,
           {launch("decode_t0", &G::decode_t0), share("decode_em", &G::decode_em),
            step("decode_block", &G::decode_block, 2e-8),
            step("decode_walk", &G::decode_walk, 1e-8), exponent("decode_p", &G::decode_p)}),
      without_error(rule("decode_fp8", "decode_attention", KernelClass::decode_attention,
                         {launch("decode_fp8_t0", &G::decode_fp8_t0),
                          share("decode_fp8_em", &G::decode_fp8_em)}),
                    true),
      rule("prefix_attention", "prefix_attention", KernelClass::prefix_attention,
           {launch("prefix_t0", &G::prefix_t0), share("prefix_ec", &G::prefix_ec),
            step("prefix_kappa", &G::prefix_kappa, 2e-8), exponent("prefix_p", &G::prefix_p)}),
      without_error(rule("mixed_attention", "mixed_attention", KernelClass::prefix_attention,
                         {share("mixed_em", &G::mixed_em)}),
                    false),
      rule("elementwise", "elementwise", KernelClass::small,
           {launch("small_kernel_t0", &G::small_kernel_t0),
            share("elementwise_em", &G::elementwise_em)}),
  };
  rules.back().pools_variants = true;
  std::set<std::int64_t> ranks;
  for (const Sample& sample : samples) {
    if (sample.kernel == "all_reduce") ranks.insert(dimension(sample, "ranks"));
  }
  for (const std::int64_t r : ranks) rules.push_back(all_reduce(r));
  return rules;
}

bool speaks_about(const FitRule& rule, const GpuSpec& gpu, const Sample& sample,
                  SmallCaches small) {
  if (sample.kernel != rule.kernel) return false;
  const bool take_small = small == SmallCaches::take;
  if (!sample.set_aside.empty() && !(take_small && sample.set_aside == "l2_resident")) return false;
  if (rule.ranks != 0) return dimension(sample, "ranks") == rule.ranks;
  // The formulas know 16-bit and fp8 kernels.
  if (sample.dtype == "int8" || sample.dtype == "fp32") return false;
  if ((sample.dtype == "fp8") != rule.fp8) return false;
  return in_domain(gpu, sample) && (take_small || beyond_l2(gpu, sample));
}

bool is_visible(const Constant& constant, const std::vector<const Sample*>& samples) {
  if (constant.key != "decode_walk") return true;
  return std::any_of(samples.begin(), samples.end(), [](const Sample* sample) {
    return dimension(*sample, "query_heads") == dimension(*sample, "kv_heads");
  });
}

}  // namespace kvlane::calibrate
