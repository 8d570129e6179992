#pragma once
// Quantiles by nearest rank: always one of the values, never something in between.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/report/result.h"

namespace kvlane {

// `sorted` is not empty; 0 <= p <= 1.
inline double quantile(const std::vector<double>& sorted, double p) {
  const auto n = static_cast<double>(sorted.size());
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(p * n - 1e-9)));
  return sorted[std::min(rank, sorted.size()) - 1];
}

// What 90 % of the values lie in: their 5 % and 95 % quantiles.
inline Interval interval_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.05), quantile(values, 0.95)};
}

}  // namespace kvlane
