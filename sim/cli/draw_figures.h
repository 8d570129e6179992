#pragma once
// Runs a script of analysis/ with python3, where both are there.

#include <string>
#include <vector>

#include "sim/cli/commands.h"

namespace kvlane::cli {

// Where the script, python3 or matplotlib is missing or fails, one line on stderr says how to draw:
// the figures' data are written in any case.
void draw_figures(const std::string& script, const std::vector<std::string>& arguments,
                  const Context& context);

}  // namespace kvlane::cli
