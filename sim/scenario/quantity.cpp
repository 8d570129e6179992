#include "sim/scenario/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "sim/scenario/schema.h"

namespace kvlane {

namespace {

__extension__ using Int128 = __int128;

// factor = multiplier * 10^power10 in base units of the family.
struct Unit {
  std::string_view word;
  std::int64_t multiplier;
  int power10;
};

constexpr std::int64_t kKi = std::int64_t{1} << 10;
constexpr std::int64_t kMi = std::int64_t{1} << 20;
constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr std::int64_t kTi = std::int64_t{1} << 40;

constexpr std::array kTime{Unit{"ps", 1, -12}, Unit{"ns", 1, -9}, Unit{"us", 1, -6},
                           Unit{"ms", 1, -3},  Unit{"s", 1, 0},   Unit{"min", 60, 0},
                           Unit{"h", 3600, 0}};
constexpr std::array kSize{Unit{"B", 1, 0},     Unit{"KB", 1, 3},    Unit{"MB", 1, 6},
                           Unit{"GB", 1, 9},    Unit{"TB", 1, 12},   Unit{"KiB", kKi, 0},
                           Unit{"MiB", kMi, 0}, Unit{"GiB", kGi, 0}, Unit{"TiB", kTi, 0}};
constexpr std::array kRate{
    Unit{"bps", 1, 0},         Unit{"Kbps", 1, 3},        Unit{"Mbps", 1, 6},
    Unit{"Gbps", 1, 9},        Unit{"Tbps", 1, 12},       Unit{"B/s", 8, 0},
    Unit{"KB/s", 8, 3},        Unit{"MB/s", 8, 6},        Unit{"GB/s", 8, 9},
    Unit{"TB/s", 8, 12},       Unit{"KiB/s", 8 * kKi, 0}, Unit{"MiB/s", 8 * kMi, 0},
    Unit{"GiB/s", 8 * kGi, 0}, Unit{"TiB/s", 8 * kTi, 0}};
constexpr std::array kCompute{Unit{"FLOPS", 1, 0},  Unit{"KFLOPS", 1, 3},  Unit{"MFLOPS", 1, 6},
                              Unit{"GFLOPS", 1, 9}, Unit{"TFLOPS", 1, 12}, Unit{"PFLOPS", 1, 15},
                              Unit{"OPS", 1, 0},    Unit{"KOPS", 1, 3},    Unit{"MOPS", 1, 6},
                              Unit{"GOPS", 1, 9},   Unit{"TOPS", 1, 12},   Unit{"POPS", 1, 15}};
constexpr std::array kMessages{Unit{"msg/s", 1, 0}, Unit{"Kmsg/s", 1, 3}, Unit{"Mmsg/s", 1, 6},
                               Unit{"Gmsg/s", 1, 9}};
constexpr std::array kPrice{Unit{"USD/h", 1, 0}};
constexpr std::array kShare{Unit{"%", 1, -2}};

struct Family {
  UnitFamily family;
  std::string_view what;  // "a rate"
  std::string_view example;
  std::span<const Unit> units;
};

constexpr std::array<Family, 8> kFamilies{{
    {UnitFamily::time, "a time", "a time such as `2 us`", kTime},
    {UnitFamily::size, "a size", "a size such as `64 KiB`", kSize},
    {UnitFamily::rate, "a rate", "a rate such as `25 Gbps`", kRate},
    {UnitFamily::byte_rate, "a rate", "a rate such as `864 GB/s`", kRate},
    {UnitFamily::compute, "a compute rate", "a compute rate such as `119.5 TFLOPS`", kCompute},
    {UnitFamily::message_rate, "a message rate", "a message rate such as `7 Mmsg/s`", kMessages},
    {UnitFamily::price, "a price", "a price such as `5.9 USD/h`", kPrice},
    {UnitFamily::share, "a share", "a share such as `20 %`", kShare},
}};

const Family& family_of(UnitFamily family) { return kFamilies[static_cast<std::size_t>(family)]; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Length of -?digits[.digits][e[+-]digits] at the start of `text`, 0 where there is none.
std::size_t number_length(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > start;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  if (!digits()) return 0;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return 0;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    const std::size_t mark = i++;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (!digits()) i = mark;
  }
  return i;
}

// digits * 10^exponent, exactly.
struct Decimal {
  bool negative = false;
  std::uint64_t digits = 0;  // at most 19 of them
  std::int64_t exponent = 0;
};

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  return fmt::format("`{}{}`", text.substr(0, kLongest), text.size() > kLongest ? "..." : "");
}

Decimal parse_decimal(std::string_view number, const SourcePlace& place) {
  Decimal result;
  std::size_t i = 0;
  if (number[0] == '-' || number[0] == '+') {
    result.negative = number[0] == '-';
    i = 1;
  }
  bool fraction = false;
  std::int64_t zeros = 0;  // held back, so that trailing zeros cost no digits
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '.') {
      fraction = true;
      continue;
    }
    if (fraction) --result.exponent;
    if (number[i] == '0') {
      if (result.digits != 0) ++zeros;
      continue;
    }
    for (++zeros; zeros > 0; --zeros) {
      if (result.digits > 999'999'999'999'999'999)
        throw InputError(place, shown(number),
                         "expected a number of at most 19 significant digits");
      result.digits *= 10;
    }
    result.digits += static_cast<std::uint64_t>(number[i] - '0');
    zeros = 0;
  }
  result.exponent += zeros;
  if (i < number.size()) {
    std::string_view exponent = number.substr(i + 1);
    if (exponent.front() == '+') exponent.remove_prefix(1);
    int value = 0;
    const auto [end, error] =
        std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
    if (error != std::errc() || value > 400 || value < -400)
      throw InputError(place, shown(number), "expected a number of ordinary size");
    result.exponent += value;
  }
  return result;
}

struct Parsed {
  std::string_view number;
  const Unit* unit;
};

Parsed split(std::string_view text, UnitFamily family, const SourcePlace& place) {
  const Family& wanted = family_of(family);
  const std::size_t length = number_length(text);
  const std::string_view number = text.substr(0, length);
  std::string_view unit = text.substr(length);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (length == 0)
    throw InputError(place, shown(text) + " is not a number with a unit",
                     fmt::format("expected {}", wanted.example));
  if (unit.empty())
    throw InputError(place, fmt::format("the bare number {} has no unit", shown(text)),
                     fmt::format("expected {}", wanted.example));
  for (const Unit& u : wanted.units)
    if (u.word == unit) return {number, &u};
  for (const Family& other : kFamilies)
    for (const Unit& u : other.units)
      if (u.word == unit)
        throw InputError(place, fmt::format("{} is {}", shown(text), other.what),
                         fmt::format("expected {}", wanted.example));
  std::vector<std::string> words;
  for (const Unit& u : wanted.units) words.emplace_back(u.word);
  throw InputError(place, fmt::format("unknown unit in {}", shown(text)),
                   fmt::format("expected {}, unit one of {}{}", wanted.example, join_words(words),
                               nearest_hint(std::string(unit), words)));
}

double to_double(const std::string& text, std::string_view written, const SourcePlace& place) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw InputError(place, shown(written) + " is out of range",
                     "expected a number a double holds");
  return value;
}

double decimal_to_double(const Decimal& d, std::string_view written, const SourcePlace& place) {
  return to_double(fmt::format("{}{}e{}", d.negative ? "-" : "", d.digits, d.exponent), written,
                   place);
}

}  // namespace

std::string_view example_of(UnitFamily family) { return family_of(family).example; }

std::string pattern_of(UnitFamily family) {
  std::string pattern = "^[-+]?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)? *(";
  const char* separator = "";
  for (const Unit& u : family_of(family).units) {
    pattern += separator;
    pattern += u.word;
    separator = "|";
  }
  return pattern + ")$";
}

double parse_quantity(std::string_view text, UnitFamily family, const SourcePlace& place) {
  const Parsed parsed = split(text, family, place);
  Decimal decimal = parse_decimal(parsed.number, place);
  decimal.exponent += parsed.unit->power10;
  const double value =
      decimal_to_double(decimal, text, place) * static_cast<double>(parsed.unit->multiplier);
  if (!std::isfinite(value))
    throw InputError(place, shown(text) + " is out of range", "expected a number a double holds");
  // Rates of the family `byte_rate` share the words of `rate`, whose base is a bit a second.
  return family == UnitFamily::byte_rate ? value / 8 : value;
}

std::int64_t parse_integer_quantity(std::string_view text, UnitFamily family,
                                    const SourcePlace& place) {
  const Parsed parsed = split(text, family, place);
  const Decimal decimal = parse_decimal(parsed.number, place);
  // Whole units: picoseconds for times; bytes and bits a second are the bases already.
  std::int64_t exponent =
      decimal.exponent + parsed.unit->power10 + (family == UnitFamily::time ? 12 : 0);
  const auto out_of_range = [&]() {
    return InputError(place, shown(text) + " is out of range",
                      family == UnitFamily::time
                          ? "expected at most 106 days"
                          : "expected less than 2^63 bytes or bits a second");
  };
  constexpr Int128 kLimit = std::numeric_limits<std::int64_t>::max();
  if (decimal.digits == 0) return 0;
  Int128 value = decimal.digits;
  value *= parsed.unit->multiplier;  // below 10^19 * 2^43
  for (; exponent > 0; --exponent) {
    value *= 10;
    if (value > kLimit) throw out_of_range();
  }
  // Round half up: keep the last digit dropped and decide by it.
  int last = 0;
  for (; exponent < 0 && (value != 0 || last != 0); ++exponent) {
    last = static_cast<int>(value % 10);
    value /= 10;
  }
  if (last >= 5) ++value;
  if (value > kLimit) throw out_of_range();
  if (value == 0)
    throw InputError(place, shown(text) + " rounds to zero",
                     family == UnitFamily::time ? "expected at least 1 ps" : "expected at least 1");
  return decimal.negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

std::int64_t parse_integer(std::string_view text, const SourcePlace& place) {
  std::string_view digits = text;
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    throw InputError(place, shown(text) + " is out of range", "expected less than 2^63");
  if (error != std::errc() || end != digits.data() + digits.size())
    throw InputError(place, shown(text) + " is not a whole number",
                     "expected a whole number without a unit");
  return value;
}

double parse_number(std::string_view text, const SourcePlace& place) {
  if (text.empty() || number_length(text) != text.size())
    throw InputError(place, shown(text) + " is not a number", "expected a number without a unit");
  const std::string_view digits = text.front() == '+' ? text.substr(1) : text;
  return to_double(std::string(digits), text, place);
}

namespace {
// The largest unit that gives at most three decimals, else the smallest unit.
std::string format_as(std::int64_t value, std::span<const Unit> units, int base_power10,
                      bool binary) {
  for (std::size_t i = units.size(); i-- > 0;) {
    const Unit& unit = units[i];
    if ((unit.multiplier != 1) != binary && unit.word != "B") continue;
    if (unit.word == "min" || unit.word == "h" || unit.word.find("/s") != std::string_view::npos)
      continue;
    Int128 factor = unit.multiplier;
    for (int p = unit.power10 + base_power10; p > 0; --p) factor *= 10;
    const Int128 scaled = static_cast<Int128>(value) * 1000;
    if (value == 0 || (value % factor != 0 && scaled % factor != 0)) continue;
    if (value < factor && value > -factor) continue;
    if (value % factor == 0)
      return fmt::format("{} {}", static_cast<std::int64_t>(value / factor), unit.word);
    const auto thousandths = static_cast<std::int64_t>(scaled / factor);
    std::string text = fmt::format("{}{}.{:03}", thousandths < 0 ? "-" : "",
                                   std::llabs(thousandths) / 1000, std::llabs(thousandths) % 1000);
    while (text.back() == '0') text.pop_back();
    return fmt::format("{} {}", text, unit.word);
  }
  return fmt::format("{} {}", value, units[0].word);
}
}  // namespace

std::string format_time(std::int64_t picoseconds) {
  return format_as(picoseconds, kTime, 12, false);
}

std::string format_size(std::int64_t bytes) {
  if (bytes % kKi == 0 && bytes != 0 && bytes % 1000 != 0) return format_as(bytes, kSize, 0, true);
  return format_as(bytes, kSize, 0, false);
}

std::string format_rate(std::int64_t bits_per_second) {
  return format_as(bits_per_second, kRate, 0, false);
}

}  // namespace kvlane
