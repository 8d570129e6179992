// kvlane compare A.json B.json: two results side by side.

#include <fmt/format.h>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/report/compare.h"
#include "sim/report/result_json.h"
#include "sim/scenario/input_files.h"

namespace kvlane::cli {
namespace {

constexpr char kAbout[] =
    "kvlane compare A.json B.json: each metric of the strategies in both results, A, B and B/A, "
    "which\n"
    "inputs differ, and what makes the numbers hard to compare. The files are what\n"
    "`kvlane run --format json` writes.";

Result read_result(const std::string& path) {
  return result_from_json(path, InputFiles({}).peek(path, {path}));
}

}  // namespace

int compare_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format;
  arguments.options.add_options()("format",
                                  boost::program_options::value(&format)->default_value("table"),
                                  "table, json or csv");
  if (!arguments.parse("compare", kAbout, args)) return 0;
  const std::vector<std::string>& files = arguments.positional;
  if (files.size() != 2) {
    throw UsageError(
        fmt::format("compare: {} files; expected two results, A.json B.json", files.size()));
  }
  expect_word("--format", format, {"table", "json", "csv"});
  // One after the other: the compiler orders arguments as it likes, and the first error counts.
  const Result a = read_result(files[0]);
  const Result b = read_result(files[1]);
  const Comparison comparison = compare_results(files[0], a, files[1], b);
  if (format == "json") {
    print(comparison_to_json(comparison));
  } else if (format == "csv") {
    print(comparison_to_csv(comparison));
  } else {
    print(comparison_to_table(comparison, context.columns));
  }
  return 0;
}

}  // namespace kvlane::cli
