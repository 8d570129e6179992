// kvlane compare A.json B.json: two results side by side.

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "sim/base/input_error.h"
#include "sim/cli/commands.h"
#include "sim/report/compare.h"
#include "sim/report/result_json.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

Result read_result(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError({path}, "the file cannot be read", "expected a kvlane.result/1");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return result_from_json(path, text);
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

int compare_command(const Args& args, const Context& context) {
  po::options_description options("Options");
  std::string format;
  options.add_options()("help,h", "this text")("format", po::value(&format)->default_value("table"),
                                               "table, json or csv");
  po::options_description all;
  std::vector<std::string> files;
  all.add(options).add_options()("file", po::value(&files));
  po::positional_options_description positions;
  positions.add("file", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(args).options(all).positional(positions).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("compare: {}", error.what()));
  }
  if (values.count("help") != 0) {
    print(
        "kvlane compare A.json B.json: each metric of the strategies in both results, A, B and "
        "B/A,\n"
        "which inputs differ, and what makes the numbers hard to compare. The files are what\n"
        "`kvlane run --format json` writes.\n\n");
    std::ostringstream out;
    out << options;
    print(out.str());
    return 0;
  }
  if (files.size() != 2) {
    throw UsageError(
        fmt::format("compare: {} files; expected two results, A.json B.json", files.size()));
  }
  if (format != "table" && format != "json" && format != "csv") {
    throw UsageError(fmt::format("compare: --format {}; expected table, json or csv", format));
  }
  const Comparison comparison =
      compare_results(files[0], read_result(files[0]), files[1], read_result(files[1]));
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
