#pragma once
// How busy ports and GPUs were, from the records of a run.

#include <string>
#include <utility>
#include <vector>

#include "calibrate/live/role/role.h"
#include "sim/port/trace.h"

namespace kvlane::live {

// `rate(endpoint)`: of its port. Shares of the time until `end`; a port's is its busier direction.
std::vector<std::pair<std::string, double>> utilisation_of(
    const std::vector<TraceRecord>& records, const Places& places,
    const std::function<Bandwidth(EndpointId)>& rate, TimePoint end);

}  // namespace kvlane::live
