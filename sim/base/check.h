#pragma once
// KVLANE_CHECK(condition, "format", values...): a broken invariant throws std::logic_error that
// names file, line and values. Bad input of a user is InputError (sim/base/input_error.h), never
// this.

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace kvlane::detail {
[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const std::string& what) {
  throw std::logic_error(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, what));
}
}  // namespace kvlane::detail

#define KVLANE_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::kvlane::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
