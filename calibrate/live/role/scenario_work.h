#pragma once
// Times the work of a scenario by the kernels that will run it live.

#include <map>
#include <string>

#include "calibrate/live/compute/work_times.h"
#include "calibrate/live/role/options.h"
#include "sim/run/world.h"
#include "sim/scenario/scenario.h"

namespace kvlane::live {

using WorkLists = std::map<std::string, std::shared_ptr<WorkList>>;  // by GPU name

// One of each GPU of the scenario, for RunOptions::tables; a simulation fills them.
WorkLists work_lists(const Scenario& scenario);
KernelTables as_tables(const WorkLists& lists);

// Alone, on the processors of the options, piece after piece in turn, as many layers deep as the
// model is, so that a piece finds the caches as others left them; the median counts. `kind`: cpu or
// cuda. Takes seconds. Throws as RoleCompute does.
KernelTables time_work(const Scenario& scenario, const LiveOptions& options, ComputeKind kind,
                       const WorkLists& lists);

}  // namespace kvlane::live
