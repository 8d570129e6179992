#pragma once
// A result as CSV: one row a strategy (also the columns of a sweep), and one row a request.

#include <string>
#include <vector>

#include "sim/report/result.h"

namespace kvlane {

// Columns end in their unit; empty fields are values that do not exist (JSON null).
std::vector<std::string> strategy_columns();
std::vector<std::string> strategy_fields(const Result& result, const StrategyResult& strategy);

// Checks the result, then header and rows.
std::string result_to_csv(const Result& result);
std::string requests_to_csv(const Result& result);

}  // namespace kvlane
