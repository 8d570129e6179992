#pragma once
// `kvlane compare --sim-vs-live SCENARIO`: the same scenario simulated on what this machine was
// measured to do, and run live; both, and the error for every metric and strategy.

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/live_arguments.h"

namespace kvlane::cli {

struct SimVsLive {
  std::string scenario;            // path
  std::vector<std::string> set;    // overrides
  std::optional<Bandwidth> shape;  // namespaces of this rate
  int runs = 5;                    // of each strategy, interleaved; medians are compared
  std::string hardware;            // GPU file, --compute cpu
  bool recalibrate = false;
  std::string format = "table";
};

// Prints, returns the exit status.
int sim_vs_live(const SimVsLive& wanted, const Arguments& arguments,
                const LiveArguments& live_arguments, const Context& context);

}  // namespace kvlane::cli
