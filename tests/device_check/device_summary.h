#pragma once
// What a device check says of the measured kernels, as text. The standard library only.

#include <string>

#include "calibrate/measure/session.h"

namespace kvlane::calibrate {

// The ceilings, then a row a kernel: shapes, what was left out, the best rates and their shares of
// the ceilings. `planned`: how many shapes there were to measure.
std::string device_summary(const SessionResult& result, std::size_t planned);

}  // namespace kvlane::calibrate
