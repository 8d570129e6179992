#pragma once
// A study: a grid over keys of a scenario, and questions about where one strategy stops beating
// another. Pure: what runs the points (threads, journal, files) lives in sim/cli.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/input_error.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/schema.h"

namespace kvlane {

struct GridAxis {
  PlacedText key;                  // a path as --set takes it; names the column
  std::vector<PlacedText> also;    // further paths that get the same value
  std::vector<PlacedText> values;  // as they would stand in the scenario file
};

// At which value of `over` does `of` stop (or start) beating `against`?
struct CrossoverQuestion {
  PlacedText of, against;   // strategies
  PlacedText metric;        // ttst_s is its mean; ttst_s.p99 and the like
  PlacedText over;          // key of an axis with numbers
  double tolerance = 0.01;  // the bracket ends when high / low <= 1 + tolerance
};

struct Study {
  std::string name, description;
  std::string scenario;                // path
  std::vector<PlacedText> strategies;  // empty: all of the scenario
  std::vector<GridAxis> grid;          // the last axis varies fastest
  std::vector<CrossoverQuestion> crossovers;
  std::int64_t uncertainty = 0;  // draws of the models' errors, for intervals of the crossovers
  InputFile file;
};

// One value an axis, in order.
using GridPoint = std::vector<std::string>;

std::size_t grid_size(const Study& study);
GridPoint grid_point(const Study& study, std::size_t index);
// The --set texts of a point.
std::vector<std::string> overrides_of(const Study& study, const GridPoint& point);

// Keeps the named strategies, in the scenario's order. InputError (at the name) for one that the
// scenario does not have.
void keep_strategies(Scenario& scenario, const std::vector<PlacedText>& names);

// Column of a sweep's rows (sim/report/result_csv.h) that holds a metric: "ttst_s" ->
// "ttst_mean_s", "ttst_s.p99" -> "ttst_p99_s". InputError for a word that is no metric.
std::string metric_column(const PlacedText& metric);

}  // namespace kvlane
