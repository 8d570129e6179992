#include "calibrate/fit/rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "calibrate/fit/predict.h"
#include "sim/gpu/kernel_work.h"

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
// One that the other terms may hide.
Constant hidden_share(const char* key, Member at) {
  Constant constant = share(key, at);
  constant.may_hide = true;
  return constant;
}
// 1 is a sum, 100 as good as a hard maximum. Both kinds of start, since a fit may get stuck.
Constant exponent(const char* key, Member at) {
  return {key, ValueUnit::number, member(at), 1, 100, {1.5, 5}};
}
// Times a block or key.
Constant step(const char* key, Member at, double start) {
  return {key, ValueUnit::time, member(at), 1e-11, 1e-5, {start}, true};
}
// A CPU has fewer hands: launches and blocks may take a hundred times as long.
void widen(std::vector<FitRule>& rules) {
  for (FitRule& rule : rules) {
    for (Constant& constant : rule.constants) {
      if (constant.unit == ValueUnit::time) constant.high *= 100;
    }
  }
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

// A constant of GpuSpec::costs.
std::function<double&(GpuSpec&)> of_cost(const std::string& kernel, double KernelCost::*at) {
  return [kernel, at](GpuSpec& gpu) -> double& { return gpu.costs[kernel].*at; };
}

KernelClass class_of(const std::string& kernel) {
  static const std::map<std::string, KernelClass> classes = {
      {"copy", KernelClass::copy},
      {"read", KernelClass::copy},
      {"kv_gather", KernelClass::copy},
      {"kv_scatter", KernelClass::copy},
      {"sparse_attention", KernelClass::decode_attention},
      {"hack_attention", KernelClass::decode_attention},
      {"hack_dequantise_attention", KernelClass::decode_attention},
      {"hack_append", KernelClass::quantise},
      {"rms_norm", KernelClass::small},
      {"gated_unit", KernelClass::small},
      {"rope", KernelClass::small},
      {"embedding", KernelClass::small},
      {"add", KernelClass::small}};
  const auto found = classes.find(kernel);
  return found == classes.end() ? KernelClass::selection : found->second;
}

// Which of operations, bytes and pieces a kernel's samples can tell apart: the others grow in
// proportion.
struct Terms {
  bool flops = false, bytes = false, items = false;
  bool wakes = false;  // its small shapes run on one thread, its large ones on all
};
Terms terms_of(const std::string& kernel) {
  static const std::map<std::string, Terms> terms = {
      {"copy", {false, true, false, true}},
      {"read", {false, true, false, true}},
      {"add", {false, true, false, true}},
      {"rms_norm", {false, true, true, true}},
      {"gated_unit", {false, true, false, true}},
      {"rope", {true, true, false, true}},
      {"embedding", {false, true, true, true}},
      {"sparse_attention", {true, true, true, false}},
      {"kv_gather", {false, true, true, false}},
      {"kv_scatter", {false, true, true, false}},
      {"index_split", {false, true, true, true}},
      {"hack_append", {true, true, false, true}},
      {"hata_encode", {true, true, true, false}},
      {"hata_score", {true, true, true, false}},
      {"infinigen_project", {true, true, true, false}},
      {"infinigen_score", {true, true, true, false}},
      {"hack_attention", {true, true, true, false}},
      {"hack_dequantise_attention", {true, true, true, false}}};
  const auto found = terms.find(kernel);
  return found == terms.end() ? Terms{false, true, true, false} : found->second;
}

// The start of a rate or of the time of a piece: that of the middle sample, as if nothing else
// cost. 0: no sample has any of it.
double middle(const std::vector<Sample>& samples, const std::string& kernel,
              double KernelWork::*part) {
  std::vector<double> rates;
  for (const Sample& sample : samples) {
    if (sample.kernel != kernel || !sample.set_aside.empty()) continue;
    const auto work = kernel_work(sample);
    if (work && *work.*part > 0) rates.push_back(*work.*part / sample.seconds);
  }
  if (rates.empty()) return 0;
  const auto at = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), at, rates.end());
  return *at;
}

FitRule cost_rule(const std::string& kernel, const std::vector<Sample>& samples) {
  FitRule r = rule(kernel.c_str(), kernel.c_str(), class_of(kernel), {});
  // The class has a formula of its own, which these errors are not about.
  r.states_error = r.kernel_class != KernelClass::decode_attention;
  const Terms terms = terms_of(kernel);
  const std::string key = "kernel_costs." + kernel + '.';
  r.constants.push_back({key + "launch",
                         ValueUnit::time,
                         of_cost(kernel, &KernelCost::t0),
                         1e-8,
                         1e-2,
                         {1e-5},
                         true});
  const auto rate = [&](const char* name, ValueUnit unit, double KernelCost::*at,
                        double KernelWork::*part) {
    const double start = middle(samples, kernel, part);
    if (start <= 0) return;
    Constant constant{key + name,  unit,         of_cost(kernel, at),
                      start / 100, start * 1000, {2 * start}};
    constant.may_hide = true;
    r.constants.push_back(std::move(constant));
  };
  if (terms.flops) rate("rate", ValueUnit::ops, &KernelCost::flops, &KernelWork::flops);
  if (terms.bytes)
    rate("bandwidth", ValueUnit::byte_rate, &KernelCost::bandwidth, &KernelWork::bytes);
  const double pieces = middle(samples, kernel, &KernelWork::items);
  if (terms.items && pieces > 0) {
    r.constants.push_back({key + "item",
                           ValueUnit::time,
                           of_cost(kernel, &KernelCost::item),
                           1e-4 / pieces,
                           100 / pieces,
                           {0.3 / pieces},
                           true});
  }
  // A GPU has no threads that sleep.
  const bool threads = std::any_of(samples.begin(), samples.end(), is_own_cpu);
  if (terms.wakes && threads) {
    r.constants.push_back({key + "wake",
                           ValueUnit::time,
                           of_cost(kernel, &KernelCost::wake),
                           1e-7,
                           1e-2,
                           {3e-5},
                           true});
    // In bytes; several starts, since the step is only seen from near.
    r.constants.push_back({key + "alone",
                           ValueUnit::number,
                           of_cost(kernel, &KernelCost::alone),
                           2048,
                           4e6,
                           {2e4, 1e5}});
  }
  r.constants.push_back({key + "exponent",
                         ValueUnit::number,
                         of_cost(kernel, &KernelCost::p),
                         1,
                         100,
                         {1.05, 1.5, 5}});
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
      rule(
          "decode_attention", "decode_attention", KernelClass::decode_attention,
          {launch("decode_t0", &G::decode_t0), share("decode_em", &G::decode_em),
           step("decode_block", &G::decode_block, 2e-8), step("decode_walk", &G::decode_walk, 1e-8),
           hidden_share("decode_ec", &G::decode_ec), exponent("decode_p", &G::decode_p)}),
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
  if (std::any_of(samples.begin(), samples.end(), is_own_cpu)) widen(rules);
  std::set<std::int64_t> ranks;
  for (const Sample& sample : samples) {
    if (sample.kernel == "all_reduce") ranks.insert(dimension(sample, "ranks"));
  }
  for (const std::int64_t r : ranks) rules.push_back(all_reduce(r));
  for (const std::string& kernel : costed_kernels()) {
    // Copies of others are links, which a GPU's file has as rates (pcie_h2d).
    const bool sampled = std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
      return sample.kernel == kernel && is_own(sample);
    });
    if (sampled) rules.push_back(cost_rule(kernel, samples));
  }
  return rules;
}

bool speaks_about(const FitRule& rule, const GpuSpec& gpu, const Sample& sample,
                  SmallCaches small) {
  if (sample.kernel != rule.kernel) return false;
  const bool take_small = small == SmallCaches::take;
  if (!sample.set_aside.empty() && !(take_small && sample.set_aside == "l2_resident")) return false;
  if (rule.ranks != 0) return dimension(sample, "ranks") == rule.ranks;
  // The formulas know 16-bit and fp8 kernels. A CPU multiplies in 32 bits what a model has in 16:
  // there gemm_em is a share of half the bytes that move.
  if (sample.dtype == "int8" || (sample.dtype == "fp32" && !is_own(sample))) return false;
  if (std::find(costed_kernels().begin(), costed_kernels().end(), sample.kernel) !=
          costed_kernels().end() &&
      !is_own(sample))
    return false;
  if ((sample.dtype == "fp8") != rule.fp8) return false;
  return in_domain(gpu, sample) && (take_small || beyond_l2(gpu, sample));
}

bool is_visible(const Constant& constant, const std::vector<const Sample*>& samples) {
  // GPUs hide the arithmetic of decode attention behind its bytes.
  if (constant.key == "decode_ec") return !samples.empty() && is_own_cpu(*samples.front());
  if (constant.key != "decode_walk") return true;
  return std::any_of(samples.begin(), samples.end(), [](const Sample* sample) {
    return dimension(*sample, "query_heads") == dimension(*sample, "kv_heads");
  });
}

}  // namespace kvlane::calibrate
