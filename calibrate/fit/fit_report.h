#pragma once
// What `kvlane calibrate fit` answers.

#include <string>

#include "calibrate/fit/fit.h"

namespace kvlane::calibrate {

// A row a kernel: samples, error on shapes held out, constants; then warnings and what was left
// out.
std::string fit_table(const MachineFit& fit, int columns);
// One object a kernel in `rows`: kernel, source, variant, available, fitted, held_out, mape,
// median, p90, constants by key (base units), warnings; `left_out` beside them.
std::string fit_json(const MachineFit& fit);

}  // namespace kvlane::calibrate
