#pragma once
// A CSV file of somebody else's: a header, rows of as many fields, places for errors.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.h"

namespace kvlane::calibrate {

class CsvTable {
 public:
  // Throws InputError: no header, a row with another number of fields than the header, a quote that
  // never ends, a column name twice. Blank lines are skipped; \r\n counts as \n.
  // `optional_last`: fields at the end of a row that may be left out, and are blank then.
  CsvTable(std::string_view text, std::string name, std::size_t optional_last = 0);
  // Without a header: `columns` name the fields.
  CsvTable(std::string_view text, std::string name, std::vector<std::string> columns);

  std::size_t size() const { return rows_.size(); }
  bool has(std::string_view column) const { return index(column).has_value(); }
  // Index of a column. Throws InputError (at the header) where there is none.
  std::size_t column(std::string_view name) const;
  const std::vector<std::string>& columns() const { return columns_; }

  const std::string& text(std::size_t row, std::size_t column) const;
  bool blank(std::size_t row, std::size_t column) const { return text(row, column).empty(); }
  // A finite number. Throws InputError at the field.
  double number(std::size_t row, std::size_t column) const;
  // A finite number above zero.
  double positive(std::size_t row, std::size_t column) const;
  // A whole number from `least` to `most`. Counts of tokens, heads and the like end at 2^20,
  // so that products of three of them fit; sizes in bytes or elements have kLargestSize.
  static constexpr std::int64_t kLargestCount = 1'048'576;
  static constexpr std::int64_t kLargestSize = 1'000'000'000'000'000;
  std::int64_t integer(std::size_t row, std::size_t column, std::int64_t least = 1,
                       std::int64_t most = kLargestCount) const;
  std::int64_t size_in(std::size_t row, std::size_t column) const {
    return integer(row, column, 1, kLargestSize);
  }
  [[noreturn]] void fail(std::size_t row, std::size_t column, std::string_view found,
                         std::string_view expected) const;
  SourcePlace place(std::size_t row, std::size_t column) const;
  int line(std::size_t row) const { return rows_[row].line; }

 private:
  struct Row {
    int line = 0;
    std::vector<std::string> fields;
    std::vector<int> columns;  // where each field starts in its line, from 1
  };
  void read(std::string_view text, bool header, std::size_t optional_last);
  std::optional<std::size_t> index(std::string_view column) const;

  std::string name_;
  std::vector<std::string> columns_;
  int header_line_ = 1;
  std::vector<Row> rows_;
};

}  // namespace kvlane::calibrate
