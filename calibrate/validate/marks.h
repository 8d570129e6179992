#pragma once
// What a prediction must reach to be worth shipping: the figures that a first fit to the same
// tables reached (held-out error), and what end-to-end predictions are expected to hold.

#include <optional>
#include <string>

#include "calibrate/validate/validation_row.h"

namespace kvlane::calibrate {

struct Mark {
  double limit = 0;
  Statistic statistic = Statistic::mape;
};

// `variant`: of the measurements; a mark is about one kernel library where there are several.
std::optional<Mark> mark_of(const std::string& what, const std::string& gpu,
                            const std::string& variant);

}  // namespace kvlane::calibrate
