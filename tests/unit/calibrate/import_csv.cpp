// The CSV reader: RFC 4180's quotes, and the place of every complaint.

#include <doctest/doctest.h>

#include <string>

#include "calibrate/import/csv_table.h"

using namespace kvlane;
using kvlane::calibrate::CsvTable;

namespace {

template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string error(const std::string& text) {
  return error_of([&] { CsvTable(text, "t.csv"); });
}

}  // namespace

TEST_CASE("fields with commas, quotes and line ends") {
  const CsvTable table("a,b,c\r\n\"x, y\",\"say \"\"hi\"\"\",\"two\nlines\"\r\n1, 2 ,\n", "t.csv");
  REQUIRE(table.size() == 2);
  CHECK(table.text(0, 0) == "x, y");
  CHECK(table.text(0, 1) == "say \"hi\"");
  CHECK(table.text(0, 2) == "two\nlines");
  CHECK(table.text(1, 1) == "2");
  CHECK(table.blank(1, 2));
  // The second row starts on line 4: line 3 is the rest of the quoted field.
  CHECK(table.place(1, 1).to_string() == "t.csv:4:3");
}

TEST_CASE("a byte order mark, blank lines and a missing last line end change nothing") {
  const CsvTable table("\xef\xbb\xbf\nm,n\n\n1,2\n\n3,4", "t.csv");
  REQUIRE(table.size() == 2);
  CHECK(table.column("m") == 0);
  CHECK(table.integer(1, 1) == 4);
  CHECK(table.place(1, 0).to_string() == "t.csv:6:1");
}

TEST_CASE("no table") {
  CHECK(error("") == "t.csv:1:1: an empty file; expected a header");
  CHECK(error("\n\n") == "t.csv:1:1: an empty file; expected a header");
  CHECK(error("a,b,a\n") == "t.csv:1:5: column `a` a second time; expected every column once");
  CHECK(error("a,b\n1,2\n1,2,3\n") == "t.csv:3:1: 3 fields; expected 2 as in the header");
  CHECK(error("a,b\n1\n") == "t.csv:2:1: 1 fields; expected 2 as in the header");
  CHECK(error("a,b\n1,\"2\n3,4\n").find("t.csv:2:3: a quote that never ends") == 0);
}

TEST_CASE("a row may lack its last field only where that is said") {
  const CsvTable table("a,b,c\n1,2\n1,2,3\n", "t.csv", 1);
  REQUIRE(table.size() == 2);
  CHECK(table.blank(0, 2));
  CHECK(error_of([] { CsvTable("a,b,c\n1\n", "t.csv", 1); }) ==
        "t.csv:2:1: 1 fields; expected 3 as in the header");
}

TEST_CASE("numbers") {
  const CsvTable table("a,b\n1.5,-3\nnan,inf\n0,1048576\n1048577,0x10\n2,1 2\n,1e999\n", "t.csv");
  const auto said = [&](std::size_t row, std::size_t column, const char* how) {
    return error_of([&] {
      if (std::string(how) == "integer") table.integer(row, column);
      if (std::string(how) == "size") table.size_in(row, column);
      if (std::string(how) == "positive") table.positive(row, column);
      if (std::string(how) == "number") table.number(row, column);
    });
  };
  CHECK(table.number(0, 0) == 1.5);
  CHECK(table.number(0, 1) == -3);
  CHECK(table.integer(2, 1) == 1'048'576);
  CHECK(table.size_in(3, 0) == 1'048'577);
  CHECK(table.integer(2, 0, 0) == 0);
  CHECK(said(0, 0, "integer") ==
        "t.csv:2:1: `1.5` in column `a`; expected a whole number from 1 to 1048576");
  CHECK(said(3, 0, "integer") ==
        "t.csv:5:1: `1048577` in column `a`; expected a whole number from 1 to 1048576");
  CHECK(said(2, 0, "integer") != "no error");
  CHECK(said(0, 1, "positive") == "t.csv:2:5: `-3` in column `b`; expected a number above zero");
  CHECK(said(2, 0, "positive") == "t.csv:4:1: `0` in column `a`; expected a number above zero");
  const std::pair<std::size_t, std::size_t> nonsense[] = {{1, 0}, {1, 1}, {3, 1},
                                                          {4, 1}, {5, 0}, {5, 1}};
  for (const auto& cell : nonsense) {
    CAPTURE(table.text(cell.first, cell.second));
    CHECK(said(cell.first, cell.second, "number").find("; expected a number") != std::string::npos);
  }
}

TEST_CASE("a column that is not there is asked for at the header") {
  const CsvTable table("\na,b\n1,2\n", "t.csv");
  CHECK(error_of([&] { table.column("c"); }) == "t.csv:2:1: no column `c`; found a, b");
}
