#include "sim/report/text_table.h"

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane {
namespace {

constexpr int kGap = 2;

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (const char c : text) {
    // Continuation bytes of UTF-8 take no column of their own.
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++width;
  }
  return width;
}

std::string wrapped(std::string_view text, int width, int indent) {
  std::string out;
  int column = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const int word_width = display_width(word);
    if (column > 0 && column + 1 + word_width > width) {
      out += '\n';
      out.append(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word_width;
    at = end + 1;
  }
  return out += '\n';
}

void TextTable::add_row(std::vector<std::string> cells) {
  KVLANE_CHECK(cells.size() == header_.size(), "{} cells under {} columns", cells.size(),
               header_.size());
  rows_.push_back(std::move(cells));
}

int TextTable::column_width(std::size_t column) const {
  int width = display_width(header_[column]);
  for (const auto& row : rows_) width = std::max(width, display_width(row[column]));
  return width;
}

bool TextTable::is_left(std::size_t column) const {
  return std::find(left_.begin(), left_.end(), column) != left_.end();
}

std::string TextTable::render(int width) const {
  std::string out;
  std::size_t first = 1;
  do {
    int used = column_width(0);
    std::size_t last = first;
    while (last < header_.size() && (last == first || used + kGap + column_width(last) <= width)) {
      used += kGap + column_width(last);
      ++last;
    }
    render_columns(first, last, out);
    first = last;
    if (first < header_.size()) out += '\n';
  } while (first < header_.size());
  return out;
}

void TextTable::render_columns(std::size_t first, std::size_t last, std::string& out) const {
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    const auto cell = [&](std::size_t column) {
      const auto blanks =
          static_cast<std::size_t>(column_width(column) - display_width(cells[column]));
      if (!text.empty()) text.append(kGap, ' ');
      if (!is_left(column)) text.append(blanks, ' ');
      text += cells[column];
      if (is_left(column)) text.append(blanks, ' ');
    };
    cell(0);
    for (std::size_t column = first; column < last; ++column) cell(column);
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text;
    out += '\n';
  };
  line(header_);
  for (const auto& row : rows_) line(row);
}

}  // namespace kvlane
