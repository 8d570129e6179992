// Draws of the models' errors, and what they make of a result.

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "sim/report/quantile.h"
#include "sim/run/run.h"
#include "sim/run/uncertainty.h"
#include "tests/support/round_scenario.h"

using namespace kvlane;
using namespace kvlane::literals;
using test::round_scenario;
using test::strategy;

namespace {

constexpr std::int64_t kDraws = 1000;
constexpr double kError = 0.1;
const double kSigma = kError * std::sqrt(std::numbers::pi / 2);

// Prefill 3 x 1 ms, decode attention 3 x 0.1 ms, host 0.5 ms a step; nothing else takes time.
Scenario scenario_with(KernelClass kernel, double error) {
  Scenario s = round_scenario(3, 1, Bandwidth::unlimited(), {0.001, 0.0001, 0.0005});
  for (InstanceGroup& group : s.instances) group.gpu.fits[kernel] = {error, {}};
  s.output_tokens = 4;
  s.strategies = {strategy(PolicyKind::full_dense, "full")};
  return s;
}

Result uncertain(const Scenario& s, std::int64_t draws = kDraws) {
  RunOptions options;
  options.verdict = false;
  Result result = run_scenario(s, options);
  DrawRuns runs(s, options);
  std::vector<DrawMeans> means;
  for (std::int64_t d = 0; d < draws; ++d)
    means.push_back(means_of(runs.run(static_cast<std::uint64_t>(d))));
  add_uncertainty(result, means);
  return result;
}

// The 5 % quantile of n standard normals has the deviation sqrt(0.05 0.95 / n) / phi(1.645), with
// phi(1.645) = 0.1031: 0.0669 at n = 1000. Four of them are allowed.
void check_lognormal(const Distribution& d, double sigma) {
  REQUIRE(d.interval);
  const double slack = 4 * std::sqrt(0.05 * 0.95 / static_cast<double>(kDraws)) / 0.1031;
  CHECK(std::abs(std::log(d.interval->low / d.mean) / sigma + 1.645) < slack);
  CHECK(std::abs(std::log(d.interval->high / d.mean) / sigma - 1.645) < slack);
}

}  // namespace

TEST_CASE("uncertainty: a time of one class has the quantiles of its lognormal factor") {
  // TTFT is prefill alone (a thousandth of a percent of it is not), as nothing was cached.
  const Result prefill = uncertain(scenario_with(KernelClass::prefill_attention, kError));
  check_lognormal(prefill.strategies[0].ttft_s, kSigma);
  CHECK(prefill.strategies[0].tbt_s.interval->low == prefill.strategies[0].tbt_s.interval->high);

  // A gap between tokens is 3 x 0.1 ms of attention and 0.5 ms of the host.
  Scenario s = scenario_with(KernelClass::decode_attention, kError);
  for (InstanceGroup& group : s.instances) group.gpu.host_step = 0;
  const Result decode = uncertain(s);
  check_lognormal(decode.strategies[0].tbt_s, kSigma);
  CHECK(decode.strategies[0].ttft_s.interval->low == decode.strategies[0].ttft_s.interval->high);

  s = scenario_with(KernelClass::host, kError);
  for (InstanceGroup& group : s.instances) group.gpu.decode_t0 = 0;
  check_lognormal(uncertain(s).strategies[0].tbt_s, kSigma);
}

TEST_CASE("uncertainty: the mean of |ln factor| is the stated error") {
  const Scenario s = scenario_with(KernelClass::gemm, 0.2);
  double sum = 0;
  double logs = 0;
  constexpr int kMany = 20'000;
  for (std::uint64_t d = 0; d < kMany; ++d) {
    const double factor = draw_factors(s, d).gpus.at("round")[0];
    sum += std::abs(std::log(factor));
    logs += std::log(factor);
  }
  // |z| has mean sqrt(2/pi) and deviation sqrt(1 - 2/pi) = 0.603: 4 x 0.603/0.798 x 0.2/sqrt(n).
  CHECK(std::abs(sum / kMany - 0.2) < 4 * 0.603 / 0.798 * 0.2 / std::sqrt(kMany));
  CHECK(std::abs(logs / kMany) < 4 * 0.2 * std::sqrt(std::numbers::pi / 2) / std::sqrt(kMany));
}

TEST_CASE("uncertainty: a factor belongs to a GPU model and a class, whatever else has an error") {
  Scenario s = scenario_with(KernelClass::gemm, 0.2);
  const DrawFactors alone = draw_factors(s, 7);
  CHECK(alone.gpus.size() == 1);  // both sides are "round"
  CHECK(alone.nics.empty());
  for (InstanceGroup& group : s.instances) {
    group.gpu.fits[KernelClass::host] = {0.3, {}};
    group.nic.error = 0.1;
  }
  const DrawFactors more = draw_factors(s, 7);
  CHECK(more.gpus.at("round")[0] == alone.gpus.at("round")[0]);
  CHECK(more.gpus.at("round")[9] != 1);
  CHECK(more.nics.at("round") != 1);
  CHECK(draw_factors(s, 8).gpus.at("round")[0] != more.gpus.at("round")[0]);

  s.instances[1].gpu.name = "another";
  CHECK(draw_factors(s, 7).gpus.at("another")[0] != more.gpus.at("round")[0]);
  CHECK(draw_factors(s, 7).gpus.at("round")[0] == more.gpus.at("round")[0]);
}

TEST_CASE("uncertainty: strategies share a draw's errors, so that what they share cancels") {
  // Attention alone: TTST is 1 x 3 x 0.1 ms without a transfer, for both alike.
  Scenario s = scenario_with(KernelClass::decode_attention, 0.3);
  for (InstanceGroup& group : s.instances)
    group.gpu.fits[KernelClass::prefill_attention] = {0.3, {}};
  s.strategies.push_back(strategy(PolicyKind::full_dense, "again"));
  s.strategies.push_back(strategy(PolicyKind::full_dense, "third"));
  const Result result = uncertain(s, 100);
  const auto& ratios = result.uncertainty->ratios;
  REQUIRE(ratios.size() == 3 * 4);
  CHECK(ratios[0].of == "again");
  CHECK(ratios[0].against == "full");
  CHECK(ratios[8].of == "third");  // the pair without full: against the earlier one
  CHECK(ratios[8].against == "again");
  for (const RatioInterval& row : ratios) {
    CHECK(row.low == 1);
    CHECK(row.ratio == 1);
    CHECK(row.high == 1);
  }
  const Interval jct = *result.strategies[1].jct_s.interval;
  CHECK(jct.high > 1.5 * jct.low);
}

TEST_CASE("uncertainty: the stall is against an ideal with the same errors") {
  Scenario s = scenario_with(KernelClass::decode_attention, 0.3);
  s.strategies = {strategy(PolicyKind::ideal, "ideal")};
  const Distribution stall = uncertain(s, 50).strategies[0].stall_s;
  CHECK(stall.interval->low == 0);
  CHECK(stall.interval->high == 0);
}

TEST_CASE("uncertainty: a NIC is never faster than its line, and slower by its factor") {
  NicSpec nic = test::round_nic(8_Gbps);
  nic.efficiency = 0.9;
  nic.message_rate = 1e6;
  nic.latency = 8_us;
  nic.per_message = 100_ns;
  nic.per_doorbell = 300_ns;
  const NicSpec slow = perturbed(nic, 1.5);
  CHECK(slow.rate == nic.rate);
  CHECK(slow.efficiency == doctest::Approx(0.6));
  CHECK(slow.message_rate == doctest::Approx(1e6 / 1.5));
  CHECK(slow.latency == 12_us);
  CHECK(slow.per_message == 150_ns);
  CHECK(slow.per_doorbell == 450_ns);
  CHECK(perturbed(nic, 0.5).efficiency == 1);
  CHECK(perturbed(nic, 0.5).latency == 4_us);

  // 3 MB at 8 Gbit/s need 3 ms after the first token (0.001 ms of kernels): with an efficiency of
  // one the fast half of the draws is cut off, the slow half is the factor.
  Scenario s = round_scenario(3, 1, 8_Gbps, {1e-6, 1e-9, 1e-9});
  s.strategies = {strategy(PolicyKind::full_dense, "full")};
  for (InstanceGroup& group : s.instances) group.nic.error = kError;
  const Distribution ttst = uncertain(s).strategies[0].ttst_s;
  CHECK(ttst.interval->low / ttst.mean == doctest::Approx(1).epsilon(1e-6));
  const double slack = 4 * std::sqrt(0.05 * 0.95 / static_cast<double>(kDraws)) / 0.1031;
  CHECK(std::abs(std::log(ttst.interval->high / ttst.mean) / kSigma - 1.645) < slack + 0.01);
}

TEST_CASE("uncertainty: PCIe and the host's memory are slower by the factor of copies") {
  GpuSpec gpu = test::round_gpu({});
  gpu.pcie_h2d = gpu.pcie_d2h = gpu.host_memory = 100_Gbps;
  gpu.pcie_copy = 10_us;
  gpu.host_gather_bandwidth = 30e9;
  gpu.host_step = 1;
  KernelFactors factors = kNoFactors;
  factors[static_cast<std::size_t>(KernelClass::copy)] = 2;
  const GpuSpec copies = perturbed(gpu, factors);
  CHECK(copies.pcie_h2d == 50_Gbps);
  CHECK(copies.pcie_d2h == 50_Gbps);
  CHECK(copies.host_memory == 50_Gbps);
  CHECK(copies.pcie_copy == 20_us);
  CHECK(copies.host_gather_bandwidth == 30e9);
  factors = kNoFactors;
  factors[static_cast<std::size_t>(KernelClass::host)] = 2;
  const GpuSpec host = perturbed(gpu, factors);
  CHECK(host.pcie_h2d == 100_Gbps);
  CHECK(host.host_gather_bandwidth == 15e9);
  CHECK(host.host_step == 1);  // the cost model multiplies it
}

TEST_CASE("uncertainty: what is used and has no stated error is named once") {
  Scenario s = scenario_with(KernelClass::gemm, kError);
  const Result result = uncertain(s, 2);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].find("round (prefill_attention, ") != std::string::npos);
  CHECK(result.warnings[0].find("gemm") == std::string::npos);
  CHECK(result.warnings[0].find(", round: ") != std::string::npos);  // the NIC
  for (std::size_t k = 0; k < kKernelClasses; ++k) {
    for (InstanceGroup& group : s.instances) {
      group.gpu.fits[static_cast<KernelClass>(k)] = {0, {}};
      group.nic.error = 0;
    }
  }
  // An error of zero is stated: nothing moves, nothing is said.
  const Result certain = uncertain(s, 2);
  CHECK(certain.warnings.empty());
  CHECK(certain.strategies[0].jct_s.interval->low == certain.strategies[0].jct_s.mean);
  CHECK(certain.strategies[0].jct_s.interval->high == certain.strategies[0].jct_s.mean);
}

namespace {

DrawMeans seconds(double a, double b) { return {{a, a, a, a, a, a}, {b, b, b, b, b, b}}; }

Result two_strategies() {
  Result result;
  result.verdict = "a";
  for (const auto& [name, time] : {std::pair("a", 1.0), std::pair("b", 1.1)}) {
    StrategyResult s;
    s.name = s.policy = name;
    for (const MetricEntry& metric : kMetrics) (s.*metric.member).mean = time;
    result.strategies.push_back(s);
  }
  return result;
}

}  // namespace

TEST_CASE("uncertainty: the verdict says where errors do not separate the best two") {
  Result apart = two_strategies();
  add_uncertainty(apart, {seconds(1, 1.05), seconds(1, 1.2)});
  CHECK(apart.verdict == "a");
  CHECK(apart.uncertainty->ratios[1].of == "b");
  CHECK(apart.uncertainty->ratios[1].metric == "second_token_s");
  CHECK(apart.uncertainty->ratios[1].ratio == doctest::Approx(1.1));
  CHECK(apart.uncertainty->ratios[1].low == doctest::Approx(1.05));
  CHECK(apart.uncertainty->ratios[1].high == doctest::Approx(1.2));

  Result mixed = two_strategies();
  add_uncertainty(mixed, {seconds(1, 0.8), seconds(1, 1.25)});
  CHECK(mixed.verdict ==
        "a; the error of the models does not separate a from b (second token 0.909, 90 % interval "
        "0.800 to 1.250)");
}

TEST_CASE("uncertainty: quantiles by nearest rank") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  CHECK(interval_of(values).low == 5);
  CHECK(interval_of(values).high == 95);
  CHECK(interval_of({2, 1}).low == 1);
  CHECK(interval_of({2, 1}).high == 2);
}
