#pragma once
// Options of a subcommand (Boost.Program_options): positional words go to `positional`, --help
// prints `about` and the options. Errors are UsageError.

#include <boost/program_options.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/commands.h"

namespace kvlane::cli {

struct Arguments {
  boost::program_options::options_description options{"Options"};
  boost::program_options::variables_map values;
  std::vector<std::string> positional;

  // False: --help has been printed, there is nothing to do.
  bool parse(const std::string& command, const std::string& about, const Args& args);
  bool has(const std::string& option) const { return values.count(option) != 0; }
};

// Throws UsageError unless `value` is one of `words`.
void expect_word(const std::string& option, const std::string& value,
                 const std::vector<std::string>& words);

void print(const std::string& text);  // to stdout
// One line `kvlane: message` to stderr; where that cannot be written, nobody reads it.
void print_error(std::string_view message);
// Throws UsageError where a file or folder was given as ''.
void expect_name(const Arguments& arguments, const std::string& option, const std::string& value);

}  // namespace kvlane::cli
