// The solver on functions whose minimum is known.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/fit/solver.h"

using namespace kvlane::calibrate;

namespace {

// y = a x^b, exactly or with rows that are far off.
struct PowerLaw {
  std::vector<double> x, y;
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
  Solution fit(double low_a, double high_a) const {
    return solve({{"a", low_a, high_a, {std::sqrt(low_a * high_a)}}, {"b", 0.1, 10, {1, 4}}},
                 x.size(), [&](const std::vector<double>& at, std::vector<double>& out) {
                   for (std::size_t i = 0; i < x.size(); ++i) {
                     out[i] = std::log(at[0] * std::pow(x[i], at[1]) / y[i]);
                   }
                 });
  }
};

}  // namespace

TEST_CASE("solve: finds the constants of exact data, whatever their scale") {
  for (const double a : {3e-8, 5.0, 4e9}) {
    PowerLaw law;
    for (double x = 1; x < 100; x *= 1.5) law.add(x, a * std::pow(x, 1.7));
    const Solution solution = law.fit(a / 1000, a * 300);
    CHECK(solution.converged);
    CHECK(solution.values[0] == doctest::Approx(a).epsilon(1e-4));
    CHECK(solution.values[1] == doctest::Approx(1.7).epsilon(1e-4));
    CHECK_FALSE(solution.at_low[0]);
    CHECK_FALSE(solution.at_high[1]);
  }
}

TEST_CASE("solve: single rows do not pull the fit") {
  // 40 exact rows and two that are 20 times too long. Least squares would move ln a by
  // 2 ln(20) / 42 = 0.143; under soft L1 each of the two pulls at most like a row that is off by
  // the loss scale: 2 x 0.02 / 40 = 0.001 or, with the curvature of the others, below that.
  PowerLaw law;
  for (int i = 0; i < 42; ++i) {
    const double x = 1 + i;
    law.add(x, (i == 10 || i == 30 ? 20 : 1) * 2 * x);
  }
  const Solution solution = law.fit(0.01, 100);
  CHECK(solution.converged);
  CHECK(solution.values[0] == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("solve: a constant that wants to leave its bounds is held there and said to be") {
  PowerLaw law;
  for (double x = 1; x < 100; x *= 1.3) law.add(x, 50 * x);
  const Solution high = law.fit(0.1, 20);
  INFO(high.values[0], ' ', high.values[1], ' ', high.status);
  CHECK(high.at_high[0]);
  CHECK_FALSE(high.at_low[0]);
  CHECK(high.values[0] <= 20);
  const Solution low = law.fit(80, 1000);
  CHECK(low.at_low[0]);
  CHECK(low.values[0] >= 80);
}

TEST_CASE("solve: residuals that are never finite do not converge") {
  const Solution solution =
      solve({{"a", 1, 10, {2, 3}}}, 3, [](const std::vector<double>&, std::vector<double>& out) {
        for (double& r : out) r = std::numeric_limits<double>::quiet_NaN();
      });
  CHECK_FALSE(solution.converged);
  CHECK(solution.status == "the residuals are not finite");
}

TEST_CASE("solve: of several starts the best counts") {
  // |ln(a/2)| and |ln(a/50)| + 0.5: two valleys, the deeper at 2.
  const auto valleys = [](const std::vector<double>& at, std::vector<double>& out) {
    out[0] = std::min(std::abs(std::log(at[0] / 2)), std::abs(std::log(at[0] / 50)) + 0.5);
  };
  CHECK(solve({{"a", 0.1, 1000, {60}}}, 1, valleys).values[0] == doctest::Approx(50).epsilon(0.02));
  CHECK(solve({{"a", 0.1, 1000, {60, 3}}}, 1, valleys).values[0] ==
        doctest::Approx(2).epsilon(0.02));
}
