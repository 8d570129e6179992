#pragma once
// The summary of the errors on what was held out.

#include <cstddef>
#include <vector>

namespace kvlane::calibrate {

// Relative errors |predicted / measured - 1|.
struct HeldOutError {
  std::size_t count = 0;
  double mean = 0, median = 0, p90 = 0;
};

// Quantiles between order statistics; at least one error.
HeldOutError summary_of(std::vector<double> errors);

}  // namespace kvlane::calibrate
