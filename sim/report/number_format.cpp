#include "sim/report/number_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/check.h"

namespace kvlane {

std::string shortest(double value) {
  KVLANE_CHECK(std::isfinite(value), "a result that is not a number: {}", value);
  if (value == 0) return "0";  // no "-0"
  return fmt::format("{}", value);
}

std::string significant(double value, int digits) {
  KVLANE_CHECK(std::isfinite(value), "a result that is not a number: {}", value);
  if (value == 0) return "0";
  int decimals = digits - 1;
  // By comparison, not by log10: the same digits whatever the math library.
  for (double bound = 10; std::abs(value) >= bound && decimals > 0; bound *= 10) --decimals;
  double bound = 1;
  for (int extra = 0; std::abs(value) < bound && extra < 4; ++extra, bound /= 10) ++decimals;
  return fmt::format("{:.{}f}", value, decimals);
}

DisplayUnit time_unit(std::span<const double> seconds) {
  double smallest = 0;
  for (const double s : seconds) {
    if (s > 0 && (smallest == 0 || s < smallest)) smallest = s;
  }
  if (smallest == 0 || smallest >= 0.1) return {"s", 1};
  if (smallest >= 1e-4) return {"ms", 1e3};
  return {"us", 1e6};
}

DisplayUnit byte_unit(std::span<const double> bytes) {
  double largest = 0;
  for (const double b : bytes) largest = std::max(largest, b);
  if (largest >= 1e9) return {"GB", 1e-9};
  if (largest >= 1e6) return {"MB", 1e-6};
  if (largest >= 1e3) return {"kB", 1e-3};
  return {"B", 1};
}

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  const std::array<double, 1> values{value};
  const DisplayUnit unit = byte_unit(values);
  if (unit.scale == 1) return fmt::format("{} B", bytes);
  return fmt::format("{} {}", significant(value * unit.scale), unit.name);
}

std::string percent(double share) { return fmt::format("{:.1f}", share * 100); }

}  // namespace kvlane
