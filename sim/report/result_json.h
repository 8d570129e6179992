#pragma once
// kvlane.result/1 (docs/contracts.md) as text, and back.

#include <string>
#include <string_view>

#include "sim/report/result.h"

namespace kvlane {

// Sums and ranges that every result keeps: parts add up to their mean, lanes to the total, shares
// lie in 0..1, numbers are finite. Throws std::logic_error that names strategy and field.
void check_result(const Result& result);

// Checks, then writes; the same bytes for the same result on every compiler.
std::string result_to_json(const Result& result);

// `file` names the text in errors. Throws InputError for what is not a kvlane.result/1. The rows of
// requests are not part of the file and stay empty.
Result result_from_json(const std::string& file, std::string_view text);

}  // namespace kvlane
