#include "calibrate/measure/kernel_rates.h"

#include <algorithm>
#include <cstddef>

#include "calibrate/measure/memory_grid.h"
#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {
namespace {

double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string KernelRates::name() const {
  const std::size_t way = variant.find(": ");
  if (way == std::string::npos) return kernel;
  return (kernel == "copy" ? "" : kernel + ", ") + variant.substr(0, way);
}

std::vector<KernelRates> kernel_rates(const std::vector<Sample>& samples) {
  std::vector<KernelRates> rows;
  std::vector<std::vector<double>> spreads;
  for (const Sample& sample : samples) {
    const auto known = std::find_if(rows.begin(), rows.end(), [&](const KernelRates& r) {
      return r.kernel == sample.kernel && r.variant == sample.variant;
    });
    const auto at = static_cast<std::size_t>(known - rows.begin());
    if (known == rows.end()) {
      rows.push_back({sample.kernel, sample.variant});
      spreads.emplace_back();
    }
    KernelRates& row = rows[at];
    if (sample.set_aside == kExtrapolated) {
      ++row.extrapolated;
      continue;
    }
    ++row.measured;
    const KernelWork work = kernel_work(sample).value_or(KernelWork{});
    row.flops = std::max(row.flops, work.flops / sample.seconds);
    const double bytes = crosses_link(sample) ? work.bytes / 2 : work.bytes;
    row.bytes = std::max(row.bytes, bytes / sample.seconds);
    row.link = row.link || crosses_link(sample);
    spreads[at].push_back((sample.conditions.seconds_p75 - sample.conditions.seconds_p25) /
                          sample.seconds);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].spread = middle_of(std::move(spreads[i]));
  return rows;
}

double memory_ceiling(const KernelRates& rates, const Ceilings& ceilings) {
  if (rates.link) return 0;
  return rates.kernel == "copy" ? ceilings.copy : ceilings.read;
}

}  // namespace kvlane::calibrate
