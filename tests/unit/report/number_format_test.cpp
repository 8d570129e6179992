#include "sim/report/number_format.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "sim/base/rng.h"
#include "sim/report/csv.h"
#include "sim/report/text_table.h"

using namespace kvlane;

TEST_CASE("shortest: the decimal that was meant, and never minus zero") {
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(-0.0) == "0");
  CHECK(shortest(3) == "3");
  CHECK(shortest(1e-7) == "1e-07");
  CHECK(shortest(0.1 + 0.2) == "0.30000000000000004");
}

TEST_CASE("shortest: reads back as the same double") {
  Rng rng(1, "doubles");
  for (int i = 0; i < 20'000; ++i) {
    // Any exponent between 2^-200 and 2^200.
    const double value = std::ldexp(rng.uniform() + 1.0, static_cast<int>(rng.below(400)) - 200);
    CHECK(std::strtod(shortest(value).c_str(), nullptr) == value);
  }
}

TEST_CASE("shortest: what is not a number is a broken invariant") {
  CHECK_THROWS_AS(shortest(std::numeric_limits<double>::quiet_NaN()), std::logic_error);
  CHECK_THROWS_AS(shortest(std::numeric_limits<double>::infinity()), std::logic_error);
}

TEST_CASE("significant: four digits, no exponent") {
  CHECK(significant(0) == "0");
  CHECK(significant(12345.6) == "12346");
  CHECK(significant(1234.5678) == "1235");
  CHECK(significant(123.45) == "123.5");
  CHECK(significant(1.23456) == "1.235");
  CHECK(significant(0.0123456) == "0.01235");
}

TEST_CASE("time_unit: a column reads in the unit of its smallest value") {
  const std::array<double, 2> seconds{12.5, 0.25};
  const std::array<double, 2> millis{12.5, 0.05};
  const std::array<double, 3> micros{1.0, 0.00002, 0.0};
  CHECK(std::string(time_unit(seconds).name) == "s");
  CHECK(std::string(time_unit(millis).name) == "ms");
  CHECK(std::string(time_unit(micros).name) == "us");
}

TEST_CASE("bytes_text: decimal units") {
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(3'100'000) == "3.100 MB");
  CHECK(bytes_text(7'864'320'000) == "7.864 GB");
}

TEST_CASE("csv: a field survives the way there and back") {
  const std::vector<std::string> fields{"plain", "a,b", "say \"hi\"", "", "two\nlines"};
  CHECK(csv_fields(csv_line(fields)) == fields);
  CHECK(csv_field("25 Gbps") == "25 Gbps");
}

TEST_CASE("TextTable: columns that do not fit continue below, under the first one") {
  TextTable table({"name", "aaaaaaaa", "bbbbbbbb", "cccccccc"});
  table.add_row({"x", "1", "2", "3"});
  CHECK(table.render(24) ==
        "name  aaaaaaaa  bbbbbbbb\n"
        "x            1         2\n"
        "\n"
        "name  cccccccc\n"
        "x            3\n");
  CHECK_THROWS_AS(table.add_row({"short"}), std::logic_error);
}

TEST_CASE("wrapped: breaks at blanks, counts code points") {
  CHECK(wrapped("one two three", 8, 2) == "one two\n  three\n");
  CHECK(display_width("µs·") == 3);
}
