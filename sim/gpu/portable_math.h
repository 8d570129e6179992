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
  constexpr double kOdd[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                             1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  double sum = 0;
  for (const double term : kOdd) sum = sum * s2 + term;
  return static_cast<double>(exponent) * kLn2High +
         (2 * s * sum + static_cast<double>(exponent) * kLn2Low);
}

// |x| < 700. exp(x) = 2^k exp(r), |r| <= ln(2) / 2, Taylor to r^14.
inline double exp(double x) {
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  constexpr double kInverse[] = {1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8,
                                 1.0 / 7,  1.0 / 6,  1.0 / 5,  1.0 / 4,  1.0 / 3,  1.0 / 2, 1.0};
  double sum = 1;
  for (const double inverse : kInverse) sum = 1 + sum * r * inverse;
  return std::ldexp(sum, static_cast<int>(k));
}

// x >= 0.
inline double pow(double x, double y) {
  if (x <= 0) return 0;
  const double exponent = y * portable::log(x);
  return exponent < -700 ? 0 : portable::exp(exponent);
}

}  // namespace kvlane::portable
