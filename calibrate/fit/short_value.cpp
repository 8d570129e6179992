#include "calibrate/fit/short_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "sim/base/check.h"
#include "sim/scenario/quantity.h"

namespace kvlane::calibrate {
namespace {

struct Scale {
  const char* word;
  double size;
};

constexpr std::array kTimes{Scale{"s", 1}, Scale{"ms", 1e-3}, Scale{"us", 1e-6}, Scale{"ns", 1e-9},
                            Scale{"ps", 1e-12}};
constexpr std::array kByteRates{Scale{"GB/s", 1e9}, Scale{"MB/s", 1e6}};
constexpr std::array kFlops{Scale{"TFLOPS", 1e12}, Scale{"GFLOPS", 1e9}};
constexpr std::array kOps{Scale{"TOPS", 1e12}, Scale{"GOPS", 1e9}};
constexpr std::array kMessages{Scale{"Mmsg/s", 1e6}, Scale{"Kmsg/s", 1e3}};
constexpr std::array kShares{Scale{"%", 0.01}};
constexpr std::array kNumbers{Scale{"", 1}};

std::span<const Scale> scales(ValueUnit unit) {
  switch (unit) {
    case ValueUnit::time:
      return kTimes;
    case ValueUnit::share:
      return kShares;
    case ValueUnit::byte_rate:
      return kByteRates;
    case ValueUnit::flops:
      return kFlops;
    case ValueUnit::ops:
      return kOps;
    case ValueUnit::message_rate:
      return kMessages;
    case ValueUnit::number:
      break;
  }
  return kNumbers;
}

const char* base_word(ValueUnit unit) {
  switch (unit) {
    case ValueUnit::time:
      return " s";
    case ValueUnit::share:
      return " %";
    case ValueUnit::byte_rate:
      return " B/s";
    case ValueUnit::flops:
      return " FLOPS";
    case ValueUnit::ops:
      return " OPS";
    case ValueUnit::message_rate:
      return " msg/s";
    case ValueUnit::number:
      break;
  }
  return "";
}

double read_back(const std::string& text, ValueUnit unit) {
  static const SourcePlace nowhere{};
  switch (unit) {
    case ValueUnit::time:
      return parse_quantity(text, UnitFamily::time, nowhere);
    case ValueUnit::share:
      return parse_quantity(text, UnitFamily::share, nowhere);
    case ValueUnit::byte_rate:
      return parse_quantity(text, UnitFamily::byte_rate, nowhere);
    case ValueUnit::flops:
    case ValueUnit::ops:
      return parse_quantity(text, UnitFamily::compute, nowhere);
    case ValueUnit::message_rate:
      return parse_quantity(text, UnitFamily::message_rate, nowhere);
    case ValueUnit::number:
      break;
  }
  return parse_number(text, nowhere);
}

// `digits` significant ones, in plain notation.
std::string text_at(double value, const Scale& scale, int digits) {
  const double scaled = value / scale.size;
  const int before = static_cast<int>(std::floor(std::log10(std::abs(scaled)))) + 1;
  return fmt::format("{:.{}f}{}{}", scaled, std::max(digits - before, 0),
                     *scale.word == '\0' ? "" : " ", scale.word);
}

// The largest unit of which there is at least one.
const Scale& scale_of(double value, ValueUnit unit) {
  const std::span<const Scale> all = scales(unit);
  for (const Scale& scale : all) {
    if (std::abs(value) >= scale.size * 0.999999) return scale;
  }
  return all.back();
}

constexpr int kMostDigits = 17;  // of a double

}  // namespace

std::string value_text(double value, ValueUnit unit) {
  if (value == 0) return unit == ValueUnit::time ? "0 us" : std::string("0") + base_word(unit);
  KVLANE_CHECK(std::isfinite(value), "a value that is not finite");
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    std::string text = text_at(value, scale_of(value, unit), digits);
    if (read_back(text, unit) == value) return text;
  }
  // The division by the unit can lose the last bit; without one it does not.
  return fmt::format("{:.17g}{}", unit == ValueUnit::share ? value * 100 : value, base_word(unit));
}

std::string value_text(Bandwidth value) {
  const double bytes = value.bytes_per_sec();
  for (int digits = 1; bytes > 0 && digits <= kMostDigits; ++digits) {
    std::string text = text_at(bytes, scale_of(bytes, ValueUnit::byte_rate), digits);
    if (parse_integer_quantity(text, UnitFamily::rate, {}) == value.bits_per_sec()) return text;
  }
  return format_rate(value.bits_per_sec());
}

double rounded(double value, ValueUnit unit) {
  if (value == 0) return 0;
  return read_back(text_at(value, scale_of(value, unit), 4), unit);
}

}  // namespace kvlane::calibrate
