#pragma once
// How far a result can be trusted: the weakest number that it rests on, the sizes beyond the fits,
// the shapes that measured tables answered.

#include <memory>
#include <vector>

#include "sim/gpu/cost_model.h"
#include "sim/report/result.h"
#include "sim/scenario/scenario.h"

namespace kvlane {

// Writes weakest_source and weakest_constant, outside_domain with its warnings, and from_table.
// `models`: one an instance group, after the runs; `strategies`: those that ran.
void add_provenance(Result& result, const Scenario& scenario,
                    const std::vector<std::unique_ptr<CostModel>>& models,
                    const std::vector<const StrategyOptions*>& strategies);

}  // namespace kvlane
