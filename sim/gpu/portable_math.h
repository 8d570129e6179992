#pragma once
// log, exp and pow from IEEE additions, multiplications and divisions alone: the same bits on every
// machine, which the C library's do not promise (it picks code by processor). Relative error below
// 1e-13 over the range of the cost model.

#include <cmath>

namespace kvlane::portable {

inline constexpr double kLn2High = 0x1.62e42fee00000p-1;  // ln 2 in two parts: 32 bits, the rest
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// x > 0. x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)) as a series.
inline double log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;  // at most 0.0295: the 12th term is below 1e-19
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return static_cast<double>(exponent) * kLn2High +
         (2 * s * sum + static_cast<double>(exponent) * kLn2Low);
}

// |x| < 700. exp(x) = 2^k exp(r), |r| <= ln(2) / 2, Taylor to r^14.
inline double exp(double x) {
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

// x >= 0.
inline double pow(double x, double y) {
  if (x <= 0) return 0;
  const double exponent = y * portable::log(x);
  return exponent < -700 ? 0 : portable::exp(exponent);
}

}  // namespace kvlane::portable
