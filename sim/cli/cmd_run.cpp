// kvlane run SCENARIO: simulate every strategy and report.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/report/chrome_trace.h"
#include "sim/report/result_csv.h"
#include "sim/report/result_json.h"
#include "sim/report/result_table.h"
#include "sim/run/run.h"
#include "sim/scenario/scenario_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane run SCENARIO.yaml: simulates every strategy of the scenario and prints what each "
    "costs.\n"
    "The options override the scenario's `outputs`. With --out DIR the files result.json, "
    "result.csv\n"
    "and result.txt are written there; stdout gets the chosen format in any case.";

const char* word_of(OutputFormat format) {
  switch (format) {
    case OutputFormat::table:
      return "table";
    case OutputFormat::json:
      return "json";
    case OutputFormat::csv:
      return "csv";
  }
  return "table";
}

}  // namespace

int run_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::vector<std::string> set, only;
  std::string format, out, requests, trace;
  arguments.options.add_options()("set", po::value(&set)->composing(),
                                  "override a key: a.b.c=value (repeatable)")(
      "only", po::value(&only)->composing(), "run this strategy only (repeatable)")(
      "format", po::value(&format), "table, json or csv")(
      "out", po::value(&out), "folder for result.json, result.csv, result.txt")(
      "requests", po::value(&requests), "CSV file, one row a request")(
      "trace", po::value(&trace), "Perfetto/Chrome trace (JSON) file")(
      "no-verdict", "skip the runs at other bandwidths that the verdict needs")(
      "force", "replace files that exist");
  if (!arguments.parse("run", kAbout, args)) return 0;
  if (arguments.positional.size() != 1) {
    throw UsageError(
        fmt::format("run: {} files; expected one SCENARIO.yaml", arguments.positional.size()));
  }
  const Scenario scenario = read_scenario(arguments.positional[0], set, {context.preset_dir});
  if (format.empty()) format = word_of(scenario.outputs.format);
  expect_word("--format", format, {"table", "json", "csv"});
  if (out.empty()) out = scenario.outputs.dir.value_or("");
  if (requests.empty()) requests = scenario.outputs.requests.value_or("");
  if (trace.empty()) trace = scenario.outputs.trace.value_or("");
  if (only.empty()) only = scenario.outputs.only;

  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  const std::filesystem::path dir = out;
  if (!out.empty()) {
    make_output_folder(out);
    for (const char* name : {"result.json", "result.csv", "result.txt"}) {
      check_can_write((dir / name).string(), replace);
    }
  }
  if (!requests.empty()) check_can_write(requests, replace);
  if (!trace.empty()) check_can_write(trace, replace);

  RunOptions options;
  options.only = only;
  options.verdict = !arguments.has("no-verdict");
  std::optional<Progress> progress;
  options.progress = [&](std::size_t done, std::size_t total) {
    if (!progress) {
      progress.emplace("strategies", static_cast<std::int64_t>(total), context.stderr_is_terminal,
                       context.columns);
    }
    progress->set(static_cast<std::int64_t>(done));
  };
  std::unique_ptr<OutputFile> trace_file;
  std::unique_ptr<ChromeTrace> chrome;
  if (!trace.empty()) {
    trace_file = std::make_unique<OutputFile>(trace, replace);
    chrome = std::make_unique<ChromeTrace>([&](std::string_view text) { trace_file->write(text); });
    options.trace = [&](const std::string& strategy, const std::vector<std::string>& gpus,
                        const std::vector<std::string>& endpoints) {
      return &chrome->add_strategy(strategy, TraceNames{gpus, endpoints});
    };
  }
  const Result result = run_scenario(scenario, options);
  progress.reset();

  std::string text;
  if (format == "json") {
    text = result_to_json(result);
  } else if (format == "csv") {
    text = result_to_csv(result);
  } else {
    text = result_to_table(result, context.columns);
  }
  if (!out.empty()) {
    write_whole_file((dir / "result.json").string(), result_to_json(result), replace);
    write_whole_file((dir / "result.csv").string(), result_to_csv(result), replace);
    write_whole_file((dir / "result.txt").string(), result_to_table(result), replace);
  }
  if (!requests.empty()) write_whole_file(requests, requests_to_csv(result), replace);
  if (chrome) {
    chrome->finish();
    trace_file->commit();
  }
  print(text);
  return 0;
}

}  // namespace kvlane::cli
