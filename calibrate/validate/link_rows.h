#pragma once
// Links: streams of messages over a NIC, and transfers of KV over several, against the link model
// of docs/system.md 4 with constants from half of the sizes.

#include <vector>

#include "calibrate/validate/validation_row.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Rows `nic` by curve: time a message = max(per message, bytes / rate). Rows `kv_transfer`: time =
// per transfer + bytes / rate. `nic` over all curves has the mark: the largest median of a curve.
std::vector<ValidationRow> link_rows(const std::vector<Sample>& samples,
                                     const PointSink& points = nullptr);

}  // namespace kvlane::calibrate
