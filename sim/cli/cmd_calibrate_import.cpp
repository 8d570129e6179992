// kvlane calibrate import

#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"

namespace kvlane::cli {

int calibrate_import(const Args& args, const Context& context) {
  static_cast<void>(args);
  static_cast<void>(context);
  throw UsageError("calibrate import: not built yet; expected in this version");
}

}  // namespace kvlane::cli
