#include <doctest/doctest.h>

#include <set>

#include "sim/study/study.h"

using namespace kvlane;

namespace {

PlacedText at(const std::string& text, int line = 1) { return {text, {"s.yaml", line, 3}}; }

Study two_axes() {
  Study study;
  study.grid.push_back({at("a.rate"), {at("b.rate")}, {at("15 Gbps"), at("25 Gbps")}});
  study.grid.push_back({at("c.tokens"), {}, {at("1000"), at("2000"), at("3000")}});
  return study;
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("grid: the last axis varies fastest, every point once") {
  const Study study = two_axes();
  REQUIRE(grid_size(study) == 6);
  CHECK(grid_point(study, 0) == GridPoint{"15 Gbps", "1000"});
  CHECK(grid_point(study, 1) == GridPoint{"15 Gbps", "2000"});
  CHECK(grid_point(study, 3) == GridPoint{"25 Gbps", "1000"});
  std::set<GridPoint> points;
  for (std::size_t i = 0; i < 6; ++i) points.insert(grid_point(study, i));
  CHECK(points.size() == 6);
  CHECK_THROWS_AS(grid_point(study, 6), std::logic_error);
}

TEST_CASE("grid: a value goes to its key and to the keys beside it") {
  CHECK(overrides_of(two_axes(), {"25 Gbps", "2000"}) ==
        std::vector<std::string>{"a.rate=25 Gbps", "b.rate=25 Gbps", "c.tokens=2000"});
}

TEST_CASE("study: keeps the named strategies in the scenario's order") {
  Scenario scenario;
  for (const char* name : {"ideal", "full", "smartgen"}) {
    StrategyOptions options;
    options.name = name;
    scenario.strategies.push_back(options);
  }
  Scenario all = scenario;
  keep_strategies(all, {});
  CHECK(all.strategies.size() == 3);
  keep_strategies(scenario, {at("smartgen"), at("full")});
  REQUIRE(scenario.strategies.size() == 2);
  CHECK(scenario.strategies[0].name == "full");
  CHECK(error_of([&] {
          keep_strategies(scenario, {at("smartgem", 9)});
        }).find("s.yaml:9:3: no strategy `smartgem` in the scenario; expected one of") == 0);
}

TEST_CASE("study: metrics by the column that holds them") {
  CHECK(metric_column(at("ttst_s")) == "ttst_mean_s");
  CHECK(metric_column(at("second_token_s.p99")) == "second_token_p99_s");
  CHECK(error_of([] { metric_column(at("ttst", 4)); }).find("s.yaml:4:3: no metric `ttst`") == 0);
}
