#pragma once
// What the records of a live run say, by the metrics code of the simulator.

#include <vector>

#include "calibrate/live/role/role.h"
#include "sim/run/strategy_run.h"
#include "sim/run/world.h"

namespace kvlane::live {

// `records`: of all roles, in order; each goes to the trace, where there is one. `rates`: the
// scenario's links. Throws what strategy_run_of and the collector throw.
StrategyRun summarise(const Scenario& scenario, const StrategyOptions& strategy,
                      const std::vector<RequestPlan>& plans,
                      const std::vector<TraceRecord>& records, const Places& places,
                      SimWorld& rates, const TraceFor& trace);

}  // namespace kvlane::live
