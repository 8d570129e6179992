#include "sim/select/gauss.h"

#include <algorithm>
#include <numbers>

namespace kvlane::select {
namespace {

double density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi); }
double upper_tail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

}  // namespace

NormalTable::NormalTable() {
  // Bin edges at the quantiles i / 4096 by Newton's method on the upper tail, each started from its
  // neighbour. The outermost edge makes the mean of its bin that of the normal tail.
  std::array<double, kBins + 1> edge{};
  double z = 0;
  for (std::size_t i = kBins / 2 + 1; i < kBins; ++i) {
    const double p = static_cast<double>(kBins - i) / static_cast<double>(kBins);
    for (int step = 0; step < 8; ++step) z += (upper_tail(z) - p) / density(z);
    edge[i] = settle(z);
  }
  edge[kBins] =
      settle(2.0 * density(edge[kBins - 1]) * static_cast<double>(kBins) - edge[kBins - 1]);
  for (std::size_t i = 0; i < kBins / 2; ++i) edge[i] = -edge[kBins - i];
  for (std::size_t i = 0; i <= kBins; ++i) {
    edge_[i] = static_cast<std::int32_t>(std::floor(edge[i] * 0x1.0p16 + 0.5));
  }
  for (std::size_t i = 0; i < kBins; ++i) {
    mid_[i] = static_cast<float>(0.5 * (edge[i] + edge[i + 1]));
  }
  for (std::size_t i = 0; i < tail_.size(); ++i) {
    const double at = static_cast<double>(i) / kTailSteps - kTailLimit;
    tail_[i] = std::floor(upper_tail(at) * 0x1.0p40 + 0.5) * 0x1.0p-40;
  }
}

const NormalTable& NormalTable::instance() {
  static const NormalTable table;
  return table;
}

double NormalTable::of_uniform(double p) const {
  const double at = std::clamp(p, 0.0, 1.0) * static_cast<double>(kBins);
  const auto bin = std::min(static_cast<std::size_t>(at), kBins - 1);
  const double place = at - static_cast<double>(bin);
  return (edge_[bin] + (edge_[bin + 1] - edge_[bin]) * place) * 0x1.0p-16;
}

double NormalTable::tail(double z) const {
  const double at = (z + kTailLimit) * kTailSteps;
  if (at <= 0) return 1;
  if (at >= 2.0 * kTailSteps * kTailLimit) return 0;
  const auto i = static_cast<std::size_t>(at);
  return tail_[i] + (tail_[i + 1] - tail_[i]) * (at - static_cast<double>(i));
}

}  // namespace kvlane::select
