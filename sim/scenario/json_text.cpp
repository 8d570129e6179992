#include "sim/scenario/json_text.h"

#include <algorithm>

namespace kvlane {

nlohmann::json parse_json(std::string_view text) {
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw JsonFault{JsonFault::Kind::zero_byte, zero + 1, "a zero byte"};
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw JsonFault{JsonFault::Kind::syntax, error.byte, error.what()};
  } catch (const nlohmann::json::exception& error) {
    throw JsonFault{JsonFault::Kind::range, 0, error.what()};
  }
}

SourcePlace place_of_byte(std::string_view text, const std::string& file, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const std::size_t start = last == std::string_view::npos ? 0 : last + 1;
  return {file, static_cast<int>(lines) + 1, static_cast<int>(before.size() - start) + 1};
}

}  // namespace kvlane
