#pragma once
// Numbers as text. Files get the shortest decimal that reads back as the same double (the same
// bytes on every compiler); terminals get a few significant digits in a unit that suits a column.

#include <cstdint>
#include <span>
#include <string>

namespace kvlane {

// Shortest text that round-trips; valid JSON. A value that is not finite is a broken invariant.
std::string shortest(double value);

// Fixed notation with about `digits` significant digits: 1234, 123.4, 0.1234. Never an exponent.
std::string significant(double value, int digits = 4);

// A unit for a whole column: value in base units * scale is what is printed.
struct DisplayUnit {
  const char* name;
  double scale;
};

// s, ms or us: the largest in which the smallest value that is not zero still reads as 0.1 or more.
DisplayUnit time_unit(std::span<const double> seconds);
// B, kB, MB or GB (decimal), by the largest value.
DisplayUnit byte_unit(std::span<const double> bytes);

// "3.702 GB", "512 B": for sentences and trace arguments.
std::string bytes_text(std::int64_t bytes);
// "12.3 %" without the sign: shares of 0..1 as percent with one decimal.
std::string percent(double share);

}  // namespace kvlane
