#pragma once
// A table for a terminal. The first column is text, left-aligned, and repeated when the others do
// not fit beside each other: a table that is too wide becomes several, never a wrapped line.

#include <string>
#include <string_view>
#include <vector>

namespace kvlane {

inline constexpr int kTerminalWidth = 100;

// Columns of UTF-8 text on a terminal (one a code point).
int display_width(std::string_view text);

// `text` broken at blanks so that no line is wider, continuation lines indented.
std::string wrapped(std::string_view text, int width, int indent);

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}
  // As many cells as the header has.
  void add_row(std::vector<std::string> cells);
  // A column that reads better from the left.
  void align_left(std::size_t column) { left_.push_back(column); }
  std::string render(int width = kTerminalWidth) const;

 private:
  int column_width(std::size_t column) const;
  bool is_left(std::size_t column) const;
  void render_columns(std::size_t first, std::size_t last, std::string& out) const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_{0};
};

}  // namespace kvlane
