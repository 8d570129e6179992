#include "sim/cli/paper_runs.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/base/input_error.h"
#include "sim/cli/paper_claims.h"
#include "sim/report/result_json.h"

using namespace kvlane;
using namespace kvlane::cli;

namespace {

// Two of the paper's files, made small.
std::vector<Experiment> small_experiments() {
  const std::vector<std::string> small = {"workload.prompts.0.tokens=2000",
                                          "workload.output_tokens=3"};
  return {{"a", "l20-batch6", small, {"full", "smartgen"}},
          {"b", "l20-batch6", small, {"hack"}},
          {"c", "v100s", small, {"full"}},
          {"d", "l20-batch6", small, {"smartgen"}}};
}

PaperRuns run_all(int jobs, const Deviation& deviation = nullptr) {
  return {small_experiments(), "scenarios", jobs, deviation, [](std::size_t, std::size_t) {}};
}

}  // namespace

TEST_CASE("PaperRuns: every experiment once, the same on any number of threads") {
  std::set<std::size_t> reported;
  const PaperRuns one = run_all(1);
  const PaperRuns four(small_experiments(), "scenarios", 4, nullptr,
                       [&](std::size_t done, std::size_t of) {
                         CHECK(of == 4);
                         CHECK(reported.insert(done).second);
                       });
  CHECK(reported == std::set<std::size_t>{1, 2, 3, 4});
  for (const char* name : {"a", "b", "c", "d"}) {
    CAPTURE(name);
    CHECK(result_to_json(one.result(name)) == result_to_json(four.result(name)));
  }
  CHECK(four.result("a").strategies.size() == 2);
  CHECK(four.strategy("a", "smartgen").name == "smartgen");
  // Which others run beside it changes nothing for a strategy.
  CHECK(four.strategy("a", "smartgen").ttst_s.mean == four.strategy("d", "smartgen").ttst_s.mean);
  CHECK_THROWS_AS(four.result("e"), std::logic_error);
  CHECK_THROWS_AS(four.strategy("b", "full"), std::logic_error);
}

TEST_CASE("PaperRuns: a deviation reaches every experiment") {
  const PaperRuns longer = run_all(2, [](Scenario& s) { s.output_tokens = 5; });
  for (const char* name : {"a", "b", "c"}) {
    CHECK(longer.result(name).strategies[0].ctl_s.size() == 5);
  }
}

TEST_CASE("PaperRuns: an experiment that cannot be read is bad input, from any thread") {
  std::vector<Experiment> experiments = small_experiments();
  experiments[2].file = "nothing";
  const auto run = [&](int jobs) {
    PaperRuns(experiments, "scenarios", jobs, nullptr, [](std::size_t, std::size_t) {});
  };
  CHECK_THROWS_AS(run(1), InputError);
  CHECK_THROWS_AS(run(4), InputError);
}

TEST_CASE("Claims name experiments that exist; every reading changes a scenario") {
  std::set<std::string> names;
  for (const Experiment& e : paper_experiments()) {
    CHECK(names.insert(e.name).second);
    CHECK(!e.file.empty());
  }
  std::set<std::string> claims;
  for (const Claim& claim : paper_claims()) {
    CHECK_MESSAGE(claims.insert(claim.text + "/" + claim.reading).second, claim.text);
    CHECK(claim.paper != 0);
  }
  std::set<std::string> readings;
  for (const Reading& reading : paper_readings()) {
    CHECK(readings.insert(reading.name).second);
    CHECK(!reading.what.empty());
    CHECK(static_cast<bool>(reading.deviation));
  }
}
