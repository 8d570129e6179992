#pragma once
// Runs a script of analysis/ with python3, where both are there.

#include <string>
#include <vector>

#include "sim/cli/commands.h"

namespace kvlane::cli {

// Throws std::runtime_error where the script does not end well; where python3 or the script is
// missing, one line on stderr says how to draw.
void draw_figures(const std::string& script, const std::vector<std::string>& arguments,
                  const Context& context);

}  // namespace kvlane::cli
