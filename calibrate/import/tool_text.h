#pragma once
// Lines and words of a tool's printed output, with places for errors.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.h"

namespace kvlane::calibrate {

struct Word {
  std::string text;
  SourcePlace place;
};

// The words of every line, split at runs of at least `gap` blanks (a tab counts as two); \r\n
// counts as \n. Lines without words are empty.
std::vector<std::vector<Word>> words_of_lines(std::string_view text, const std::string& file,
                                              int gap);
// A number above zero. Throws InputError at the word.
double positive_number(const Word& word);
// A whole number from 1 to 1e15.
std::int64_t whole_number(const Word& word);

}  // namespace kvlane::calibrate
