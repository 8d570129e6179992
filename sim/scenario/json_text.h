#pragma once
// JSON from a text that may be anything: where it stops being JSON. The parser itself takes a zero
// byte for the end, and says bytes and not lines.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sim/base/input_error.h"

namespace kvlane {

// Not for users: who parses knows what was expected, and turns it into an InputError.
struct JsonFault {
  enum class Kind : std::uint8_t { zero_byte, syntax, range } kind;
  std::size_t byte;     // counted from 1; 0: not known
  std::string message;  // the parser's own
};

// Throws JsonFault: a zero byte anywhere before all else; no JSON; a number beyond a double.
nlohmann::json parse_json(std::string_view text);

// Line and column of a byte counted from 1; 0 counts as 1.
SourcePlace place_of_byte(std::string_view text, const std::string& file, std::size_t byte);

}  // namespace kvlane
