#include "sim/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "sim/base/input_error.h"

namespace kvlane::cli {

namespace po = boost::program_options;

bool Arguments::parse(const std::string& command, const std::string& about, const Args& args) {
  options.add_options()("help,h", "this text");
  po::options_description all;
  all.add(options).add_options()("words", po::value(&positional));
  po::positional_options_description positions;
  positions.add("words", -1);
  // No guessing: an abbreviation that is unique today need not be tomorrow.
  using po::command_line_style::style_t;
  const int style = static_cast<int>(po::command_line_style::unix_style) &
                    ~static_cast<int>(po::command_line_style::allow_guessing);
  try {
    po::store(po::command_line_parser(args).options(all).positional(positions).style(style).run(),
              values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}: {}; expected the options of kvlane {} --help", command,
                                 error.what(), command));
  }
  if (!has("help")) return true;
  std::ostringstream out;
  out << options;
  print(fmt::format("{}\n\n{}", about, out.str()));
  return false;
}

void expect_word(const std::string& option, const std::string& value,
                 const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), value) != words.end()) return;
  throw UsageError(fmt::format("{}: '{}'; expected one of {}", option, shortened(value),
                               fmt::join(words, ", ")));
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_error(std::string_view message) {
  const std::string line = "kvlane: " + readable(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void expect_name(const Arguments& arguments, const std::string& option, const std::string& value) {
  if (arguments.has(option) && value.empty())
    throw UsageError(fmt::format("--{} ''; expected a name", option));
}

}  // namespace kvlane::cli
