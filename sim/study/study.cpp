#include "sim/study/study.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.h"
#include "sim/report/metric_list.h"

namespace kvlane {

std::size_t grid_size(const Study& study) {
  std::size_t size = 1;
  for (const GridAxis& axis : study.grid) size *= axis.values.size();
  return size;
}

GridPoint grid_point(const Study& study, std::size_t index) {
  KVLANE_CHECK(index < grid_size(study), "point {} of {}", index, grid_size(study));
  GridPoint point(study.grid.size());
  for (std::size_t a = study.grid.size(); a-- > 0;) {
    const auto& values = study.grid[a].values;
    point[a] = values[index % values.size()].text;
    index /= values.size();
  }
  return point;
}

std::vector<std::string> overrides_of(const Study& study, const GridPoint& point) {
  KVLANE_CHECK(point.size() == study.grid.size(), "a point of {} values in a grid of {} axes",
               point.size(), study.grid.size());
  std::vector<std::string> overrides;
  for (std::size_t a = 0; a < point.size(); ++a) {
    const GridAxis& axis = study.grid[a];
    overrides.push_back(fmt::format("{}={}", axis.key.text, point[a]));
    for (const PlacedText& key : axis.also)
      overrides.push_back(fmt::format("{}={}", key.text, point[a]));
  }
  return overrides;
}

void keep_strategies(Scenario& scenario, const std::vector<PlacedText>& names) {
  std::vector<std::string> known;
  for (const auto& s : scenario.strategies) known.push_back(s.name);
  for (const PlacedText& name : names) {
    if (std::find(known.begin(), known.end(), name.text) == known.end()) {
      throw InputError(
          name.place, fmt::format("no strategy `{}` in the scenario", name.text),
          fmt::format("expected one of {}{}", join_words(known), nearest_hint(name.text, known)));
    }
  }
  if (names.empty()) return;
  std::erase_if(scenario.strategies, [&](const StrategyOptions& s) {
    return std::none_of(names.begin(), names.end(),
                        [&](const PlacedText& name) { return name.text == s.name; });
  });
}

std::string metric_column(const PlacedText& metric) {
  std::vector<std::string> known;
  for (const auto& entry : kMetrics) {
    const std::string name = entry.name;
    const std::string stem = name.substr(0, name.size() - 2);  // without "_s"
    for (const auto& stat : kStats) {
      const bool mean = stat.member == &Distribution::mean;
      if (metric.text == (mean ? name : fmt::format("{}.{}", name, stat.name)))
        return fmt::format("{}_{}_s", stem, stat.name);
    }
    known.push_back(name);
  }
  throw InputError(metric.place, fmt::format("no metric `{}`", metric.text),
                   fmt::format("expected one of {}, alone or with .p50, .p90, .p99 or .max{}",
                               join_words(known), nearest_hint(metric.text, known)));
}

}  // namespace kvlane
