#include "calibrate/fit/held_out_error.h"

#include <algorithm>
#include <numeric>

#include "sim/base/check.h"

namespace kvlane::calibrate {

HeldOutError summary_of(std::vector<double> errors) {
  KVLANE_CHECK(!errors.empty(), "no errors to sum up");
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(errors.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, errors.size() - 1);
    return errors[low] + (at - static_cast<double>(low)) * (errors[high] - errors[low]);
  };
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  return {errors.size(), sum / static_cast<double>(errors.size()), quantile(0.5), quantile(0.9)};
}

}  // namespace kvlane::calibrate
