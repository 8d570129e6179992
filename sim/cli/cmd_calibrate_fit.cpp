// kvlane calibrate fit

#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"

namespace kvlane::cli {

int calibrate_fit(const Args& args, const Context& context) {
  static_cast<void>(args);
  static_cast<void>(context);
  throw UsageError("calibrate fit: not built yet; expected in this version");
}

}  // namespace kvlane::cli
