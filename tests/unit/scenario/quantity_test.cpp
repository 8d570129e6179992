#include "sim/scenario/quantity.h"

#include <doctest/doctest.h>

#include "tests/unit/scenario/support.h"

using namespace kvlane;
using test::error_of;

namespace {

const SourcePlace kHere{"f.yaml", 3, 7};

std::int64_t whole(const char* text, UnitFamily family) {
  return parse_integer_quantity(text, family, kHere);
}
double real(const char* text, UnitFamily family) { return parse_quantity(text, family, kHere); }

}  // namespace

TEST_CASE("quantities: every unit is worth what it says") {
  CHECK(whole("1 ps", UnitFamily::time) == 1);
  CHECK(whole("1 ns", UnitFamily::time) == 1'000);
  CHECK(whole("2 us", UnitFamily::time) == 2'000'000);
  CHECK(whole("1.5 ms", UnitFamily::time) == 1'500'000'000);
  CHECK(whole("1 s", UnitFamily::time) == 1'000'000'000'000);
  CHECK(whole("2 min", UnitFamily::time) == 120'000'000'000'000);
  CHECK(whole("1 h", UnitFamily::time) == 3'600'000'000'000'000);
  CHECK(whole("7 B", UnitFamily::size) == 7);
  CHECK(whole("64 KiB", UnitFamily::size) == 65'536);
  CHECK(whole("64 KB", UnitFamily::size) == 64'000);
  CHECK(whole("48 GB", UnitFamily::size) == 48'000'000'000);
  CHECK(whole("1 GiB", UnitFamily::size) == 1'073'741'824);
  CHECK(whole("25 Gbps", UnitFamily::rate) == 25'000'000'000);
  CHECK(whole("1 GB/s", UnitFamily::rate) == 8'000'000'000);
  CHECK(whole("1 KiB/s", UnitFamily::rate) == 8'192);
  CHECK(real("864 GB/s", UnitFamily::byte_rate) == 864e9);
  CHECK(real("8 bps", UnitFamily::byte_rate) == 1.0);
  CHECK(real("119.5 TFLOPS", UnitFamily::compute) == 119.5e12);
  CHECK(real("239 TOPS", UnitFamily::compute) == 239e12);
  CHECK(real("7 Mmsg/s", UnitFamily::message_rate) == 7e6);
  CHECK(real("5.9 USD/h", UnitFamily::price) == 5.9);
  CHECK(real("20 %", UnitFamily::share) == 0.20);
  CHECK(real("2.5 us", UnitFamily::time) == 2.5e-6);
}

TEST_CASE("quantities: forms of numbers") {
  CHECK(whole("25Gbps", UnitFamily::rate) == 25'000'000'000);
  CHECK(whole("2.5e1 Gbps", UnitFamily::rate) == 25'000'000'000);
  CHECK(whole("0.000001 ms", UnitFamily::time) == 1'000);
  CHECK(whole("+1 B", UnitFamily::size) == 1);
  CHECK(whole("-1 B", UnitFamily::size) == -1);
  CHECK(whole("0 Gbps", UnitFamily::rate) == 0);
  // Exact where a double would not be: 2^53 + 1 bytes.
  CHECK(whole("9007199254740993 B", UnitFamily::size) == 9'007'199'254'740'993);
  // 300 trailing zeros cost no digits.
  CHECK(whole(("1" + std::string(300, '0') + "e-300 B").c_str(), UnitFamily::size) == 1);
}

TEST_CASE("quantities: rounding is to the nearest, never to zero") {
  CHECK(whole("1.4 B", UnitFamily::size) == 1);
  CHECK(whole("1.5 B", UnitFamily::size) == 2);
  CHECK(whole("1.3 KiB", UnitFamily::size) == 1331);  // 1331.2
  CHECK(error_of([] { whole("0.4 ps", UnitFamily::time); }) ==
        "f.yaml:3:7: `0.4 ps` rounds to zero; expected at least 1 ps");
}

TEST_CASE("quantities: errors say what was found and what was expected") {
  const auto rate = [](const char* text) {
    return error_of([text] { whole(text, UnitFamily::rate); });
  };
  CHECK(rate("25") ==
        "f.yaml:3:7: the bare number `25` has no unit; expected a rate such as `25 Gbps`");
  CHECK(rate("25 GB") == "f.yaml:3:7: `25 GB` is a size; expected a rate such as `25 Gbps`");
  CHECK(rate("25 gbps").find("unknown unit in `25 gbps`") != std::string::npos);
  CHECK(rate("25 gbps").find("(nearest: `") != std::string::npos);
  CHECK(rate("fast") ==
        "f.yaml:3:7: `fast` is not a number with a unit; expected a rate such as `25 Gbps`");
  for (const char* text : {"", ".5 Gbps", "5. Gbps", "0x10 Gbps", "1,5 Gbps", "nan Gbps",
                           "inf Gbps", "- 5 Gbps", "5 Gbps ", "1e Gbps"})
    CHECK_MESSAGE(rate(text) != "no error", text);
}

TEST_CASE("quantities: overflow is an error") {
  // 2^63 - 1 = 9223372036854775807
  CHECK(whole("9223372036854775807 B", UnitFamily::size) == 9'223'372'036'854'775'807);
  for (const char* text : {"9223372036854775808 B", "9e30 GB", "1e300 B", "1e999999999999 B",
                           "123456789012345678901 B"})
    CHECK_MESSAGE(error_of([text] { whole(text, UnitFamily::size); }) != "no error", text);
  CHECK(error_of([] { whole("107 h", UnitFamily::time); }) == "no error");
  CHECK(error_of([] { whole("2563 h", UnitFamily::time); }).find("at most 106 days") !=
        std::string::npos);  // 106.8 days
  CHECK(error_of([] { real("1e308 TFLOPS", UnitFamily::compute); }) != "no error");
}

TEST_CASE("plain numbers") {
  CHECK(parse_integer("42", kHere) == 42);
  CHECK(parse_integer("-42", kHere) == -42);
  CHECK(parse_number("0.25", kHere) == 0.25);
  CHECK(parse_number("1e-3", kHere) == 0.001);
  for (const char* text : {"", "1.5", "1e3", "0x10", "1_000", "9223372036854775808", "12 ", "one"})
    CHECK_MESSAGE(error_of([text] { parse_integer(text, kHere); }) != "no error", text);
  for (const char* text : {"", "nan", ".inf", "1e400", "1 %", "--1"})
    CHECK_MESSAGE(error_of([text] { parse_number(text, kHere); }) != "no error", text);
}

TEST_CASE("quantities as text") {
  CHECK(format_rate(25'000'000'000) == "25 Gbps");
  CHECK(format_rate(2'500'000'000) == "2.5 Gbps");
  CHECK(format_time(1'500'000) == "1.5 us");
  CHECK(format_time(0) == "0 ps");
  CHECK(format_size(65'536) == "64 KiB");
  CHECK(format_size(48'000'000'000) == "48 GB");
}
