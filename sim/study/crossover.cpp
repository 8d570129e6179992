#include "sim/study/crossover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/scenario/quantity.h"

namespace kvlane {
namespace {

constexpr double kEqual = 1e-9;  // closer ratios are rounding, not a winner

// Where log(ratio), linear in log(x), is zero; only reported, never decided upon.
double interpolate(const AxisSample& a, const AxisSample& b) {
  const double ya = std::log(a.ratio);
  const double yb = std::log(b.ratio);
  if (ya == yb) return std::sqrt(a.x * b.x);
  const double t = -ya / (yb - ya);
  return a.x * std::pow(b.x / a.x, t);
}

}  // namespace

AxisNumber parse_axis_number(std::string_view text, const SourcePlace& place) {
  std::size_t end = 0;
  while (end < text.size() &&
         std::string_view("0123456789.eE+-").find(text[end]) != std::string_view::npos)
    ++end;
  std::size_t unit = end;
  while (unit < text.size() && text[unit] == ' ') ++unit;
  AxisNumber number;
  if (end == 0) {
    throw InputError(place, fmt::format("`{}` on an axis that is asked for a crossover", text),
                     "expected numbers above zero");
  }
  number.value = parse_number(text.substr(0, end), place);
  number.unit = std::string(text.substr(unit));
  number.whole = number.unit.empty() &&
                 text.substr(0, end).find_first_not_of("0123456789") == std::string_view::npos;
  if (!(number.value > 0)) {
    throw InputError(place, fmt::format("`{}` on an axis that is asked for a crossover", text),
                     "expected numbers above zero");
  }
  return number;
}

std::string axis_text(double value, const std::string& unit, bool whole) {
  KVLANE_CHECK(value > 0 && std::isfinite(value), "axis value {}", value);
  int decimals = 0;
  if (!whole) {
    decimals = 5;
    for (double bound = 10; value >= bound && decimals > 0; bound *= 10) --decimals;
    for (double bound = 1; value < bound && decimals < 12; bound /= 10) ++decimals;
  }
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return unit.empty() ? text : text + ' ' + unit;
}

Winner winner_of(double ratio) {
  KVLANE_CHECK(ratio > 0 && std::isfinite(ratio), "ratio {}", ratio);
  if (ratio < 1 - kEqual) return Winner::of;
  if (ratio > 1 + kEqual) return Winner::against;
  return Winner::neither;
}

namespace {

// Halves a..b, of which a's winner is `below` and b's is not; returns the number of runs.
int refine(AxisSample& a, AxisSample& b, Winner below, double tolerance,
           const std::function<double(double)>& snap,
           const std::function<double(double)>& ratio_at) {
  int runs = 0;
  while (b.x > a.x * (1 + tolerance)) {
    const double middle = snap(std::sqrt(a.x * b.x));
    if (middle <= a.x || middle >= b.x) break;  // nothing representable in between
    ++runs;
    const double ratio = ratio_at(middle);
    // What is not the winner below lies beyond the first change, whoever wins there.
    (winner_of(ratio) == below ? a : b) = {middle, ratio};
  }
  return runs;
}

constexpr double kFirstStep = 1.1;

}  // namespace

MovedCrossover moved_crossover(const Crossover& nominal, double grid_low, double grid_high,
                               double tolerance, const std::function<double(double)>& snap,
                               const std::function<double(double)>& ratio_at) {
  MovedCrossover moved;
  const auto sample = [&](double x) {
    ++moved.runs;
    return AxisSample{x, ratio_at(x)};
  };
  const auto is_below = [&](const AxisSample& s) { return winner_of(s.ratio) == nominal.below; };
  AxisSample low = sample(nominal.low);
  AxisSample high = low;
  double step = kFirstStep;
  if (is_below(low)) {
    high = sample(nominal.high);
    while (is_below(high)) {
      if (high.x >= grid_high) return {grid_high, false, moved.runs};
      low = high;
      double next = low.x;
      for (; next <= low.x; step *= step) next = std::min(grid_high, snap(low.x * step));
      high = sample(next);
    }
  } else {
    while (!is_below(low)) {
      if (low.x <= grid_low) return {grid_low, false, moved.runs};
      high = low;
      double next = high.x;
      for (; next >= high.x; step *= step) next = std::max(grid_low, snap(high.x / step));
      low = sample(next);
    }
  }
  moved.runs += refine(low, high, nominal.below, tolerance, snap, ratio_at);
  moved.x = interpolate(low, high);
  moved.found = true;
  return moved;
}

std::vector<Crossover> find_crossovers(const std::vector<AxisSample>& samples, double tolerance,
                                       const std::function<double(double)>& snap,
                                       const std::function<double(double)>& ratio_at) {
  std::vector<Crossover> found;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const AxisSample& a = samples[i - 1];
    const AxisSample& b = samples[i];
    KVLANE_CHECK(a.x < b.x, "axis values must rise: {} then {}", a.x, b.x);
    Crossover c;
    c.below = winner_of(a.ratio);
    c.above = winner_of(b.ratio);
    if (c.below == c.above) continue;
    c.grid_low = a.x;
    c.grid_high = b.x;
    c.interpolated = interpolate(a, b);
    AxisSample low = a;
    AxisSample high = b;
    c.runs = refine(low, high, c.below, tolerance, snap, ratio_at);
    c.low = low.x;
    c.high = high.x;
    found.push_back(c);
  }
  return found;
}

}  // namespace kvlane
