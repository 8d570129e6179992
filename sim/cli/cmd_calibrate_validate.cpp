// kvlane calibrate validate

#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"

namespace kvlane::cli {

int calibrate_validate(const Args& args, const Context& context) {
  static_cast<void>(args);
  static_cast<void>(context);
  throw UsageError("calibrate validate: not built yet; expected in this version");
}

}  // namespace kvlane::cli
