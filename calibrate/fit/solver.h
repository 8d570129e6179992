#pragma once
// Least squares over positive constants inside bounds: Levenberg-Marquardt (Eigen's) on the
// residuals log(predicted / measured) under a soft L1 loss, so that single rows do not pull a fit.

#include <functional>
#include <string>
#include <vector>

namespace kvlane::calibrate {

// A constant searched between `low` and `high`, both above 0, on a logarithmic scale. Constants
// that start at several places are tried from each.
struct Unknown {
  std::string name;
  double low = 0, high = 0;
  std::vector<double> starts;
};

struct Solution {
  std::vector<double> values;  // in the order of the unknowns
  std::vector<bool> at_low;    // within 0.5 % of the range, on the logarithmic scale, of a bound
  std::vector<bool> at_high;
  double cost = 0;  // half of the sum of squares
  bool converged = false;
  std::string status;  // how the solver ended, in words
};

// Below this a log-residual counts squared, far above it in proportion.
inline constexpr double kLossScale = 0.02;

// `logs(values, out)`: log(predicted / measured) of every row. The best of all starts.
Solution solve(const std::vector<Unknown>& unknowns, std::size_t rows,
               const std::function<void(const std::vector<double>&, std::vector<double>&)>& logs);

}  // namespace kvlane::calibrate
