#pragma once
// What `kvlane calibrate kernels`, `memory` and `pcie` answer: the best rates of each kernel beside
// the ceilings of the machine.

#include <string>

#include "calibrate/measure/session.h"

namespace kvlane::calibrate {

// `out`: the file of the samples.
std::string measure_table(const SessionResult& result, const std::string& out, int columns);
// `kvlane.calibrate_measure/1`: a row a kernel and variant with kernel, variant, measured,
// extrapolated, flop_per_s, bytes_per_s (the best), spread (median of (p75 - p25)/median); beside
// them the ceilings and what the load gate said.
std::string measure_json(const SessionResult& result);

}  // namespace kvlane::calibrate
