#include "sim/run/uncertainty.h"

#include <boost/random/normal_distribution.hpp>
#include <numbers>
#include <optional>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/gpu/portable_math.h"
#include "sim/report/quantile.h"
#include "sim/run/verdict.h"

namespace kvlane {
namespace {

double factor(std::uint64_t seed, const std::string& stream, double error) {
  if (error <= 0) return 1;
  Rng rng(seed, stream);
  const double z = boost::random::normal_distribution<double>()(rng);
  const double sigma = error * std::sqrt(std::numbers::pi / 2);
  return portable::exp(sigma * z);
}

Duration scaled(Duration time, double factor) {
  return factor == 1 ? time : seconds_to_duration(to_seconds(time) * factor);
}

Bandwidth slower(Bandwidth rate, double factor) {
  return factor == 1 ? rate : rate.scaled(1 / factor);
}

// Metrics whose ratios are compared: those of speedup_vs_full.
constexpr std::array<Distribution StrategyResult::*, 4> kRatioMetrics = {
    &StrategyResult::ttst_s, &StrategyResult::second_token_s, &StrategyResult::tbt_s,
    &StrategyResult::jct_s};

bool has_ratio(const MetricEntry& metric) {
  return std::find(kRatioMetrics.begin(), kRatioMetrics.end(), metric.member) !=
         kRatioMetrics.end();
}

// None where `against` takes no time and `of` does.
std::optional<double> ratio_of(double of, double against) {
  if (against > 0) return of / against;
  return of == against ? std::optional(1.0) : std::nullopt;
}

std::vector<RatioInterval> ratios_of(const Result& nominal, const std::vector<DrawMeans>& draws) {
  const std::vector<StrategyResult>& strategies = nominal.strategies;
  std::vector<RatioInterval> rows;
  for (std::size_t a = 0; a < strategies.size(); ++a) {
    for (std::size_t b = a + 1; b < strategies.size(); ++b) {
      const bool swap = strategies[b].name == "full";
      const std::size_t of = swap ? a : b;
      const std::size_t against = swap ? b : a;
      for (std::size_t m = 0; m < kMetrics.size(); ++m) {
        if (!has_ratio(kMetrics[m])) continue;
        const auto member = kMetrics[m].member;
        const std::optional<double> here =
            ratio_of((strategies[of].*member).mean, (strategies[against].*member).mean);
        std::vector<double> values;
        for (const DrawMeans& draw : draws) {
          if (const auto ratio = ratio_of(draw[of][m], draw[against][m])) values.push_back(*ratio);
        }
        if (!here || values.size() < draws.size()) continue;
        const Interval interval = interval_of(std::move(values));
        rows.push_back({strategies[of].name, strategies[against].name, kMetrics[m].name, *here,
                        interval.low, interval.high});
      }
    }
  }
  return rows;
}

}  // namespace

DrawFactors draw_factors(const Scenario& scenario, std::uint64_t draw) {
  DrawFactors factors;
  const std::uint64_t seed = scenario.seed + draw;
  for (const InstanceGroup& group : scenario.instances) {
    const GpuSpec& gpu = group.gpu;
    KernelFactors& of_gpu = factors.gpus.emplace(gpu.name, kNoFactors).first->second;
    for (const auto& [kernel, fit] : gpu.fits) {
      of_gpu[static_cast<std::size_t>(kernel)] =
          factor(seed, fmt::format("uncertainty of {} {}", gpu.name, to_string(kernel)), fit.error);
    }
    const NicSpec& nic = group.nic;
    if (nic.error) {
      factors.nics[nic.name] =
          factor(seed, fmt::format("uncertainty of NIC {}", nic.name), *nic.error);
    }
  }
  return factors;
}

GpuSpec perturbed(const GpuSpec& nominal, const KernelFactors& factors) {
  GpuSpec gpu = nominal;
  const double copy = factors[static_cast<std::size_t>(KernelClass::copy)];
  const double host = factors[static_cast<std::size_t>(KernelClass::host)];
  gpu.pcie_h2d = slower(gpu.pcie_h2d, copy);
  gpu.pcie_d2h = slower(gpu.pcie_d2h, copy);
  gpu.host_memory = slower(gpu.host_memory, copy);
  gpu.pcie_copy = scaled(gpu.pcie_copy, copy);
  if (host != 1) gpu.host_gather_bandwidth /= host;
  return gpu;
}

NicSpec perturbed(const NicSpec& nominal, double factor) {
  NicSpec nic = nominal;
  if (factor == 1) return nic;
  nic.efficiency = std::min(1.0, nic.efficiency / factor);
  nic.message_rate /= factor;
  nic.latency = scaled(nic.latency, factor);
  nic.per_message = scaled(nic.per_message, factor);
  nic.per_doorbell = scaled(nic.per_doorbell, factor);
  return nic;
}

DrawMeans means_of(const Result& result) {
  DrawMeans means;
  for (const StrategyResult& s : result.strategies) {
    auto& row = means.emplace_back();
    for (std::size_t m = 0; m < kMetrics.size(); ++m) row[m] = (s.*kMetrics[m].member).mean;
  }
  return means;
}

void add_uncertainty(Result& nominal, const std::vector<DrawMeans>& draws) {
  KVLANE_CHECK(!draws.empty(), "uncertainty of no draws");
  for (const DrawMeans& draw : draws) {
    KVLANE_CHECK(draw.size() == nominal.strategies.size(), "a draw of {} strategies", draw.size());
  }
  for (std::size_t s = 0; s < nominal.strategies.size(); ++s) {
    for (std::size_t m = 0; m < kMetrics.size(); ++m) {
      std::vector<double> values;
      for (const DrawMeans& draw : draws) values.push_back(draw[s][m]);
      (nominal.strategies[s].*kMetrics[m].member).interval = interval_of(std::move(values));
    }
  }
  Uncertainty uncertainty;
  uncertainty.draws = static_cast<std::int64_t>(draws.size());
  uncertainty.ratios = ratios_of(nominal, draws);
  nominal.uncertainty = std::move(uncertainty);
  if (!nominal.without_error.empty()) {
    nominal.warnings.push_back(
        fmt::format("no error is stated for {}: the intervals take their times as they are",
                    fmt::join(nominal.without_error, ", ")));
  }
  if (!nominal.verdict.empty()) nominal.verdict += separation_of(nominal);
}

}  // namespace kvlane
