#pragma once
// A result for a person at a terminal: what it costs, why, and what to run.

#include <string>

#include "sim/report/result.h"
#include "sim/report/text_table.h"

namespace kvlane {

// Checks the result first; no line is wider than `width` unless a single name is.
std::string result_to_table(const Result& result, int width = kTerminalWidth);

}  // namespace kvlane
