#pragma once
// The hardware file of this machine's own CPU, measured once and kept (~/.cache/kvlane, or
// XDG_CACHE_HOME).

#include <string>

#include "calibrate/live/role/options.h"
#include "calibrate/live/role/prefill_role.h"
#include "sim/cli/commands.h"

namespace kvlane::cli {

// Its path; measures it first (`kvlane calibrate all`, minutes) where there is none, or anew when
// asked to.
std::string own_calibration(const live::LiveOptions& options, bool anew, const Context& context,
                            const live::Say& say);

}  // namespace kvlane::cli
