#pragma once
// Where does one strategy stop beating another along a swept number? Between neighbouring grid
// points whose winners differ, the ratio of the two is interpolated on logarithmic axes, then the
// bracket is halved by real runs until it is narrow enough.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.h"

namespace kvlane {

// A number with its unit, as an axis has them: "25 Gbps", "10000", "10 %".
struct AxisNumber {
  double value = 0;
  std::string unit;  // may be empty
  bool whole = false;
};

// InputError unless the text starts with a number above zero.
AxisNumber parse_axis_number(std::string_view text, const SourcePlace& place);
// Six significant digits, no exponent; rounded to a whole number where `whole`.
std::string axis_text(double value, const std::string& unit, bool whole);

enum class Winner { of, against, neither };
// metric(of) / metric(against); both are better when smaller. Equal to 1e-9 is neither.
Winner winner_of(double ratio);

struct Crossover {
  Winner below = Winner::neither, above = Winner::neither;  // at smaller and larger values
  double grid_low = 0, grid_high = 0;                       // neighbouring grid points
  double interpolated = 0;
  double low = 0, high = 0;  // bracket after refinement: the winner changes in between
  int runs = 0;              // real runs that refined it
};

struct AxisSample {
  double x = 0;      // > 0
  double ratio = 0;  // metric(of) / metric(against), > 0
};

// `samples` in rising x. `ratio_at` runs the scenario at a value that `snap` has made representable
// (six digits, or a whole number). Crossings in rising order; none: one strategy wins everywhere.
std::vector<Crossover> find_crossovers(const std::vector<AxisSample>& samples, double tolerance,
                                       const std::function<double(double)>& snap,
                                       const std::function<double(double)>& ratio_at);

// Where the same change lies when the ratios are others (the models' errors of one draw): from the
// nominal bracket outwards in growing steps until the winner below is left behind, then halved to
// `tolerance`. One end of the grid [grid_low, grid_high] where it is beyond that.
struct MovedCrossover {
  double x = 0;
  bool found = false;
  int runs = 0;
};
MovedCrossover moved_crossover(const Crossover& nominal, double grid_low, double grid_high,
                               double tolerance, const std::function<double(double)>& snap,
                               const std::function<double(double)>& ratio_at);

}  // namespace kvlane
