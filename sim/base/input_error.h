#pragma once
// Bad input: what a user wrote cannot be used. Caught once, in the command line; exit status 2.

#include <fmt/format.h>

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

// what() reads "file:line:col: found; expected".
class InputError : public std::runtime_error {
 public:
  InputError(const SourcePlace& place, std::string_view found, std::string_view expected)
      : std::runtime_error(fmt::format("{}: {}; {}", place.to_string(), found, expected)) {}
};

}  // namespace kvlane
