// The portable functions against the C library's.

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "sim/gpu/portable_math.h"

using namespace kvlane;

TEST_CASE("portable log, exp and pow agree with the C library") {
  double worst = 0;
  for (double x = 1e-12; x < 1e13; x *= 1.37) {
    worst = std::max(
        worst, std::abs(portable::log(x) - std::log(x)) / std::max(std::abs(std::log(x)), 1e-3));
    for (const double p : {0.29, 1 / 1.56, 1.0, 1.56, 2.3, 3.4}) {
      const double expected = std::pow(x, p);
      worst = std::max(worst, std::abs(portable::pow(x, p) - expected) / expected);
    }
  }
  for (double x = -600; x < 600; x += 0.73) {
    worst = std::max(worst, std::abs(portable::exp(x) - std::exp(x)) / std::exp(x));
  }
  CHECK(worst < 1e-13);
  CHECK(portable::pow(0, 2) == 0);
  CHECK(portable::pow(1e-300, 5) == 0);
  CHECK(portable::log(1) == 0);
  CHECK(portable::exp(0) == 1);
}
