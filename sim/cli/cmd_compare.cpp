// kvlane compare A.json B.json: two results side by side; or one scenario on two sets of hardware.

#include <fmt/format.h>

#include <algorithm>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/hardware.h"
#include "sim/cli/live_arguments.h"
#include "sim/cli/progress.h"
#include "sim/cli/sim_vs_live.h"
#include "sim/report/compare.h"
#include "sim/report/result_json.h"
#include "sim/run/run.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/quantity.h"
#include "sim/scenario/scenario_file.h"

namespace kvlane::cli {
namespace {

constexpr char kAbout[] =
    "kvlane compare A.json B.json: each metric of the strategies in both results, A, B and B/A, "
    "which\n"
    "inputs differ, and what makes the numbers hard to compare. The files are what\n"
    "`kvlane run --format json` writes.\n"
    "kvlane compare SCENARIO.yaml --hardware FILE: A is the scenario on its own hardware, B on the "
    "file's.\n"
    "kvlane compare --sim-vs-live SCENARIO.yaml: simulated on what this machine was measured to "
    "do, "
    "and\nrun live; both, and the error of the simulation, for every metric and strategy.";

Result read_result(const std::string& path) {
  return result_from_json(path, InputFiles({}).peek(path, {path}));
}

// The scenario twice, without the runs that only a verdict needs.
Comparison compare_hardware(const std::string& path, const std::string& hardware,
                            const Context& context) {
  const Scenario own = read_scenario(path, {}, {context.preset_dir});
  const Scenario other =
      read_scenario(path, hardware_overrides(hardware, path, context), {context.preset_dir});
  Progress progress("scenarios", 2, context.stderr_is_terminal, context.columns);
  RunOptions options;
  options.verdict = false;
  const Result a = run_scenario(own, options);
  progress.advance();
  const Result b = run_scenario(other, options);
  Comparison comparison = compare_results(path, a, hardware, b);
  // Sizes beyond what the file was fitted to, say.
  for (const std::string& warning : b.warnings) {
    if (std::find(a.warnings.begin(), a.warnings.end(), warning) == a.warnings.end())
      comparison.warnings.push_back("B: " + warning);
  }
  return comparison;
}

Comparison compare_files(const std::vector<std::string>& files) {
  if (files.size() != 2) {
    throw UsageError(
        fmt::format("compare: {} files; expected two results, A.json B.json", files.size()));
  }
  // One after the other: the compiler orders arguments as it likes, and the first error counts.
  const Result a = read_result(files[0]);
  const Result b = read_result(files[1]);
  return compare_results(files[0], a, files[1], b);
}

}  // namespace

int compare_command(const Args& args, const Context& context) {
  namespace po = boost::program_options;
  Arguments arguments;
  LiveArguments live_arguments;
  SimVsLive wanted;
  std::string format, hardware, shape, runs = "5";
  arguments.options.add_options()("hardware", po::value(&hardware), kHardwareHelp)(
      "format", po::value(&format)->default_value("table"), "table, json or csv")(
      "sim-vs-live", "simulate and run the scenario live")(
      "shape", po::value(&shape),
      "RATE as 1 Gbps: the live run between two network namespaces of this rate (root)")(
      "runs", po::value(&runs), "live runs of each strategy, interleaved; medians count (5)")(
      "recalibrate", "measure this machine's kernels anew (--compute cpu or cuda)")(
      "set", po::value(&wanted.set)->composing(), "override a key of the scenario (repeatable)");
  live_arguments.add(arguments.options);
  if (!arguments.parse("compare", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json", "csv"});
  expect_name(arguments, "hardware", hardware);
  const std::vector<std::string>& files = arguments.positional;
  if (arguments.has("sim-vs-live")) {
    expect_word("--format", format, {"table", "json"});
    if (files.size() != 1) {
      throw UsageError(fmt::format(
          "compare: {} files with --sim-vs-live; expected one SCENARIO.yaml", files.size()));
    }
    wanted.scenario = files[0];
    wanted.hardware = hardware;
    wanted.recalibrate = arguments.has("recalibrate");
    wanted.format = format;
    expect_name(arguments, "shape", shape);
    if (live_arguments.transport == "modeled") {
      throw UsageError(
          "compare: --transport modeled with --sim-vs-live; expected a transport that moves bytes");
    }
    if (live_arguments.transport == "shm" && !shape.empty()) {
      throw UsageError(
          "compare: --shape with --transport shm, which it cannot hold to a rate; "
          "expected tcp");
    }
    if (!shape.empty()) {
      wanted.shape = Bandwidth::bits_per_sec(
          parse_integer_quantity(shape, UnitFamily::rate, {"--shape", 0, 0}));
      if (*wanted.shape < Bandwidth::bits_per_sec(1'000'000)) {
        throw UsageError(fmt::format("compare: --shape {}; expected 1 Mbps or more", shape));
      }
    }
    const std::int64_t count = parse_integer(runs, {"--runs", 0, 0});
    if (count < 1 || count > 1000) {
      throw UsageError(fmt::format("compare: --runs {}; expected 1 to 1000", runs));
    }
    wanted.runs = static_cast<int>(count);
    return sim_vs_live(wanted, arguments, live_arguments, context);
  }
  for (const char* word : {"shape", "runs", "recalibrate", "set"}) {
    if (arguments.has(word))
      throw UsageError(fmt::format("compare: --{} without --sim-vs-live", word));
  }
  if (const std::string word = LiveArguments::first(arguments); !word.empty())
    throw UsageError(fmt::format("compare: --{} without --sim-vs-live", word));
  if (!hardware.empty() && files.size() != 1) {
    throw UsageError(
        fmt::format("compare: {} files with --hardware; expected one SCENARIO.yaml", files.size()));
  }
  const Comparison comparison =
      hardware.empty() ? compare_files(files) : compare_hardware(files[0], hardware, context);
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
