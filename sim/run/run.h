#pragma once
// A scenario's answer: every strategy over every seed, its ideal, the ratios to `full`, and the
// verdict.

#include <functional>
#include <string>
#include <vector>

#include "sim/report/result.h"
#include "sim/run/strategy_run.h"

namespace kvlane {

struct RunOptions {
  std::vector<std::string> only;  // strategies to run, all when empty (check_names)
  bool verdict = true;            // costs some runs at other bandwidths
  // Called after each finished strategy run with (done, of).
  std::function<void(std::size_t, std::size_t)> progress;
  TraceFor trace;  // first seed only
  // Measured tables by GPU name; formulas answer outside their grids and for other GPUs.
  KernelTables tables;
  // Runs a strategy in another world than the simulator's; its ideal is simulated. `seed` counts
  // from the scenario's.
  std::function<StrategyRun(const StrategyOptions&, std::uint32_t seed, const TraceFor&)> execute;
  // Calls what it is given, which simulates an ideal: a world that may not wait for so long does it
  // beside something else. Null: called as it is.
  std::function<void(const std::function<void()>&)> aside;
};

// InputError where the scenario has no strategy of a name.
void check_names(const Scenario& scenario, const std::vector<std::string>& only);

Result run_scenario(const Scenario& scenario, const RunOptions& options = {});

}  // namespace kvlane
