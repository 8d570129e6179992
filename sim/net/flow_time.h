#pragma once
// Bits and picoseconds at a constant rate in bit/s. Plain IEEE arithmetic (no fused operations), so
// that every compiler gives the same picosecond; whole numbers of bits at a whole rate are exact.

#include "sim/base/units.h"

namespace kvlane {

inline double bits_in(Duration time, double rate) {
  return static_cast<double>(time.count()) * rate / 1e12;
}

// Rounded up to a picosecond; what is less than about a thousandth of one counts as rounding noise.
// Duration::max() for a rate of 0, or for longer than the clock can say.
Duration time_for(double bits, double rate);

}  // namespace kvlane
