#include "calibrate/import/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "sim/base/check.h"

namespace kvlane::calibrate {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string name, std::size_t optional_last)
    : name_(std::move(name)) {
  read(text, true, optional_last);
}

CsvTable::CsvTable(std::string_view text, std::string name, std::vector<std::string> columns)
    : name_(std::move(name)), columns_(std::move(columns)) {
  read(text, false, 0);
}

void CsvTable::read(std::string_view text, bool header, std::size_t optional_last) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  int line = 1;
  std::size_t at = 0;
  std::size_t line_start = 0;
  while (at < text.size()) {
    Row row;
    row.line = line;
    std::string field;
    bool quoted = false;
    bool was_quoted = false;
    bool ended = false;
    int start = 1;
    while (!ended) {
      const bool end_of_text = at >= text.size();
      const char c = end_of_text ? '\n' : text[at];
      const int column = static_cast<int>(at - line_start) + 1;
      if (quoted) {
        if (end_of_text) {
          throw InputError({name_, row.line, start}, "a quote that never ends", "expected `\"`");
        }
        if (c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
          field += '"';
          ++at;
        } else if (c == '"') {
          quoted = false;
        } else {
          if (c == '\n') {
            ++line;
            line_start = at + 1;
          }
          field += c;
        }
        ++at;
        continue;
      }
      if (c == '"' && trimmed(field).empty() && !was_quoted) {
        field.clear();
        quoted = was_quoted = true;
      } else if (c == ',' || c == '\n') {
        if (c == '\n' && !field.empty() && field.back() == '\r') field.pop_back();
        row.fields.push_back(was_quoted ? field : trimmed(field));
        row.columns.push_back(start);
        field.clear();
        was_quoted = false;
        start = column + 1;
        ended = c == '\n';
      } else {
        field += c;
      }
      ++at;
      if (ended) {
        ++line;
        line_start = at;
      }
    }
    if (row.fields.size() == 1 && row.fields[0].empty()) continue;
    if (header && columns_.empty()) {
      columns_ = row.fields;
      header_line_ = row.line;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (std::find(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(i),
                      columns_[i]) != columns_.begin() + static_cast<std::ptrdiff_t>(i)) {
          throw InputError({name_, row.line, row.columns[i]},
                           fmt::format("column `{}` a second time", columns_[i]),
                           "expected every column once");
        }
      }
      continue;
    }
    while (row.fields.size() < columns_.size() &&
           row.fields.size() + optional_last >= columns_.size()) {
      row.fields.emplace_back();
      row.columns.push_back(start);
    }
    if (row.fields.size() != columns_.size()) {
      throw InputError({name_, row.line, 1}, fmt::format("{} fields", row.fields.size()),
                       fmt::format("expected {} as in the header", columns_.size()));
    }
    rows_.push_back(std::move(row));
  }
  if (columns_.empty()) throw InputError({name_, 1, 1}, "an empty file", "expected a header");
}

std::optional<std::size_t> CsvTable::index(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = index(name);
  if (!found) {
    throw InputError({name_, header_line_, 1}, fmt::format("no column `{}`", name),
                     fmt::format("found {}", fmt::join(columns_, ", ")));
  }
  return *found;
}

SourcePlace CsvTable::place(std::size_t row, std::size_t column) const {
  KVLANE_CHECK(row < rows_.size() && column < columns_.size(), "cell {}, {}", row, column);
  return {name_, rows_[row].line, rows_[row].columns[column]};
}

void CsvTable::fail(std::size_t row, std::size_t column, std::string_view found,
                    std::string_view expected) const {
  throw InputError(place(row, column), found, expected);
}

const std::string& CsvTable::text(std::size_t row, std::size_t column) const {
  KVLANE_CHECK(row < rows_.size() && column < columns_.size(), "cell {}, {}", row, column);
  return rows_[row].fields[column];
}

double CsvTable::number(std::size_t row, std::size_t column) const {
  const std::string& cell = text(row, column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) {
    fail(row, column, fmt::format("`{}` in column `{}`", cell, columns_[column]),
         "expected a number");
  }
  return value;
}

double CsvTable::positive(std::size_t row, std::size_t column) const {
  const double value = number(row, column);
  if (value <= 0) {
    fail(row, column, fmt::format("`{}` in column `{}`", text(row, column), columns_[column]),
         "expected a number above zero");
  }
  return value;
}

std::int64_t CsvTable::integer(std::size_t row, std::size_t column, std::int64_t least,
                               std::int64_t most) const {
  const double value = number(row, column);
  if (value != std::floor(value) || value < static_cast<double>(least) ||
      value > static_cast<double>(most)) {
    fail(row, column, fmt::format("`{}` in column `{}`", text(row, column), columns_[column]),
         fmt::format("expected a whole number from {} to {}", least, most));
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace kvlane::calibrate
