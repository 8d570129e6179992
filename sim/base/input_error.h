#pragma once
// Bad input: what a user wrote cannot be used. Caught once, in the command line; exit status 2.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kvlane {

// A place in an input: line and column count from 1, 0 means unknown (or not text).
struct SourcePlace {
  std::string file;
  int line = 0;
  int column = 0;
  std::string to_string() const {
    return line > 0 ? fmt::format("{}:{}:{}", file, line, column) : file;
  }
};

// The start of a value, as a message shows it: at most `longest` bytes and "...".
inline std::string shortened(std::string_view value, std::size_t longest = 77) {
  if (value.size() <= longest + 3) return std::string(value);
  std::size_t end = longest;  // not within a character of UTF-8
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80) --end;
  return std::string(value.substr(0, end)) + "...";
}

// True for what would move the cursor of a terminal or end a line: C0, DEL, and C1 in UTF-8.
inline bool is_control(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0U;
  return c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

// A message on one line: control characters are escaped, values in backticks shortened.
inline std::string readable(std::string_view message) {
  std::string cut;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t open = std::min(message.find('`', at), message.size());
    cut += message.substr(at, open - at);
    if (open == message.size()) break;
    const std::size_t close = message.find('`', open + 1);
    if (close == std::string_view::npos) {
      cut += message.substr(open);
      break;
    }
    cut += '`' + shortened(message.substr(open + 1, close - open - 1)) + '`';
    at = close + 1;
  }
  std::string line;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    if (!is_control(cut, i)) {
      line += cut[i];
    } else if (cut[i] == '\n' || cut[i] == '\t') {
      line += cut[i] == '\n' ? "\\n" : "\\t";
    } else {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(cut[i]));
      if (cut[i] == '\xc2') line += fmt::format("\\x{:02x}", static_cast<unsigned char>(cut[++i]));
    }
  }
  return line;
}

// what() reads "file:line:col: found; expected", one line without control characters.
class InputError : public std::runtime_error {
 public:
  InputError(const SourcePlace& place, std::string_view found, std::string_view expected)
      : std::runtime_error(readable(fmt::format("{}: {}; {}", place.to_string(), found, expected))),
        place_(place),
        found_(found),
        expected_(expected) {}
  const SourcePlace& place() const { return place_; }
  const std::string& found() const { return found_; }
  const std::string& expected() const { return expected_; }

 private:
  SourcePlace place_;
  std::string found_, expected_;
};

}  // namespace kvlane
