#pragma once
// CSV as RFC 4180 has it, with plain newlines: a field with a comma, quote or newline is quoted.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvlane {

std::string csv_field(std::string_view text);
// The fields joined by commas, with a newline at the end.
std::string csv_line(std::span<const std::string> fields);
// One record back into its fields; the newline may be there. Text after a closing quote is kept.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace kvlane
