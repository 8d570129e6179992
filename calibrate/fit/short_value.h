#pragma once
// Numbers of hardware files as short texts with a unit.

#include <cstdint>
#include <string>

#include "sim/base/units.h"

namespace kvlane::calibrate {

enum class ValueUnit : std::uint8_t { time, share, number, byte_rate, flops, ops, message_rate };

// The shortest text that reads back as the same number: "6.85 us", "78.1 %", "2039 GB/s".
std::string value_text(double value, ValueUnit unit);
std::string value_text(Bandwidth value);

// The number with 4 significant digits, as such a text would read back: what a fit keeps.
double rounded(double value, ValueUnit unit);

}  // namespace kvlane::calibrate
