#include "calibrate/import/tool_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace kvlane::calibrate {

std::vector<std::vector<Word>> words_of_lines(std::string_view text, const std::string& file,
                                              int gap) {
  std::vector<std::vector<Word>> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    std::vector<Word> words;
    std::string word;
    std::string blanks;
    int start = 0;
    int width = gap;  // a line may start with a word
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (c == ' ' || c == '\t' || c == '\r') {
        width += c == '\t' ? 2 : 1;
        blanks += ' ';
        continue;
      }
      if (width >= gap) {
        if (!word.empty()) words.push_back({word, {file, number, start}});
        word.clear();
        start = static_cast<int>(i) + 1;
      } else {
        word += blanks;
      }
      blanks.clear();
      width = 0;
      word += c;
    }
    if (!word.empty()) words.push_back({word, {file, number, start}});
    lines.push_back(std::move(words));
  }
  return lines;
}

double positive_number(const Word& word) {
  double value = 0;
  const char* last = word.text.data() + word.text.size();
  const auto [end, error] = std::from_chars(word.text.data(), last, value);
  if (error != std::errc() || end != last || !std::isfinite(value) || value <= 0) {
    throw InputError(word.place, fmt::format("`{}`", word.text), "expected a number above zero");
  }
  return value;
}

std::int64_t whole_number(const Word& word) {
  const double value = positive_number(word);
  if (value != std::floor(value) || value > 1e15) {
    throw InputError(word.place, fmt::format("`{}`", word.text),
                     "expected a whole number from 1 to 1e15");
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace kvlane::calibrate
