// kvlane run SCENARIO: simulate every strategy and report.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/draws.h"
#include "sim/cli/hardware.h"
#include "sim/cli/kernel_tables.h"
#include "sim/cli/live_arguments.h"
#include "sim/cli/live_run.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/report/chrome_trace.h"
#include "sim/report/result_csv.h"
#include "sim/report/result_json.h"
#include "sim/report/result_table.h"
#include "sim/run/run.h"
#include "sim/run/uncertainty.h"
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

// Which words belong to which role.
void check_roles(const Arguments& arguments, const LiveArguments& live_arguments, bool live,
                 const std::string& role, const std::string& listen,
                 const std::vector<std::string>& peers) {
  if (!role.empty()) expect_word("--role", role, {"prefill", "decode"});
  std::string of_live = LiveArguments::first(arguments);
  if (!listen.empty()) of_live = "listen";
  if (!peers.empty()) of_live = "peer";
  if (!live && !of_live.empty())
    throw UsageError(
        fmt::format("run: --{} without --live or --role; expected one of these", of_live));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (std::find(peers.begin() + static_cast<std::ptrdiff_t>(i) + 1, peers.end(), peers[i]) !=
        peers.end()) {
      throw UsageError(
          fmt::format("run: --peer {} twice; expected one for each prefill instance", peers[i]));
    }
  }
  if (role == "prefill" && listen.empty())
    throw UsageError("run: --role prefill without --listen; expected HOST:PORT");
  if (role == "decode" && peers.empty())
    throw UsageError("run: --role decode without --peer; expected HOST:PORT of each prefill role");
  if (role != "prefill" && !listen.empty())
    throw UsageError("run: --listen without --role prefill; expected both or none");
  if (role != "decode" && !peers.empty())
    throw UsageError("run: --peer without --role decode; expected both or none");
  if (!role.empty() && live_arguments.transport == "modeled")
    throw UsageError(
        "run: --transport modeled with --role; both roles are one process then, expected --live");
  if (live && arguments.has("uncertainty"))
    throw UsageError("run: --uncertainty with --live; the models' errors are the simulator's");
  if (live && arguments.has("table"))
    throw UsageError("run: --table with --live; measured kernels are the simulator's");
  for (const char* word : {"out", "requests", "trace", "format", "only"}) {
    if (role == "prefill" && arguments.has(word))
      throw UsageError(fmt::format("run: --{} with --role prefill; the decode role reports", word));
  }
}

std::vector<std::string> child_words(const Arguments& arguments,
                                     const LiveArguments& live_arguments,
                                     const std::string& hardware,
                                     const std::vector<std::string>& set) {
  std::vector<std::string> words = {arguments.positional[0]};
  if (!hardware.empty()) words.insert(words.end(), {"--hardware", hardware});
  for (const std::string& change : set) words.insert(words.end(), {"--set", change});
  const std::vector<std::string> own = live_arguments.words(arguments);
  words.insert(words.end(), own.begin(), own.end());
  return words;
}

}  // namespace

int run_command(const Args& args, const Context& context) {
  Arguments arguments;
  LiveArguments live_arguments;
  std::vector<std::string> set, only, tables, variants, peers;
  std::string role, listen;
  std::string format, out, requests, trace, draws_text, jobs_text, hardware;
  arguments.options.add_options()("set", po::value(&set)->composing(),
                                  "override a key: a.b.c=value (repeatable)")(
      "hardware", po::value(&hardware), kHardwareHelp)("only", po::value(&only)->composing(),
                                                       "run this strategy only (repeatable)")(
      "format", po::value(&format), "table, json or csv")(
      "out", po::value(&out), "folder for result.json, result.csv, result.txt")(
      "requests", po::value(&requests), "CSV file, one row a request")(
      "trace", po::value(&trace), "Perfetto/Chrome trace (JSON) file")(
      "no-verdict", "skip the runs at other bandwidths that the verdict needs")(
      "uncertainty", po::value(&draws_text),
      "N: run everything N more times (2 to 10000), each with another error of the kernel and NIC "
      "models, drawn from the errors that the hardware files state; 90 % intervals")(
      "jobs,j", po::value(&jobs_text), "threads of --uncertainty; all cores without")(
      "table", po::value(&tables)->composing(),
      "samples (JSON lines, kvlane calibrate import): kernels of the scenario's GPUs as measured, "
      "the "
      "formulas outside the measured grid (repeatable)")(
      "table-variant", po::value(&variants)->composing(),
      "where a kernel was measured in several variants, the one that contains this text "
      "(repeatable)")("force", "replace files that exist")(
      "live", "on real transports and kernels, both roles on this host")(
      "role", po::value(&role), "prefill or decode: one role of a live run over several hosts")(
      "listen", po::value(&listen), "HOST:PORT of --role prefill; port 0: any")(
      "peer", po::value(&peers)->composing(),
      "HOST:PORT of a prefill role, for --role decode; one each, in the scenario's order");
  live_arguments.add(arguments.options);
  if (!arguments.parse("run", kAbout, args)) return 0;
  expect_name(arguments, "out", out);
  expect_name(arguments, "requests", requests);
  expect_name(arguments, "trace", trace);
  expect_name(arguments, "hardware", hardware);
  expect_name(arguments, "role", role);
  expect_name(arguments, "format", format);
  const std::int64_t draws =
      arguments.has("uncertainty") ? parse_draws("run", draws_text) : std::int64_t{0};
  if (arguments.has("jobs") && draws == 0)
    throw UsageError("run: -j without --uncertainty; expected both or none");
  const bool live = arguments.has("live") || !role.empty();
  if (live && arguments.positional.empty()) {
    arguments.positional.push_back(context.preset_dir + "/smoke/loopback.yaml");
  }
  check_roles(arguments, live_arguments, live, role, listen, peers);
  const int jobs = arguments.has("jobs") ? parse_jobs("run", jobs_text) : all_cores();
  if (arguments.positional.size() != 1) {
    throw UsageError(
        fmt::format("run: {} files; expected one SCENARIO.yaml", arguments.positional.size()));
  }
  if (tables.empty() && !variants.empty())
    throw UsageError("run: --table-variant without --table; expected both or none");
  std::vector<std::string> changes = hardware_overrides(hardware, arguments.positional[0], context);
  changes.insert(changes.end(), set.begin(), set.end());
  Scenario scenario = read_scenario(arguments.positional[0], changes, {context.preset_dir});
  std::optional<live::LiveOptions> live_options;
  if (live) live_options = live_arguments.options("run", arguments, context);
  if (live) live_options->changes = set;
  if (live && role.empty()) live_options->ends_here = 2;
  const live::Say say = say_on_stderr();
  if (role == "prefill") {
    live::run_prefill_role(scenario, *live_options, live::parse_address(listen, "--listen"), say);
    return 0;
  }
  InputFiles table_files({context.preset_dir});
  RunOptions options;
  options.tables = read_tables(tables, variants, scenario, table_files);
  for (const InputFile& table : table_files.inputs()) scenario.inputs.push_back(table);
  if (format.empty()) format = word_of(scenario.outputs.format);
  expect_word("--format", format, {"table", "json", "csv"});
  if (out.empty()) out = scenario.outputs.dir.value_or("");
  if (requests.empty()) requests = scenario.outputs.requests.value_or("");
  if (trace.empty()) trace = scenario.outputs.trace.value_or("");
  if (only.empty()) only = scenario.outputs.only;

  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  const std::filesystem::path dir = out;
  std::optional<OutputFolder> folder;
  std::vector<std::string> outputs;
  if (!out.empty()) {
    folder.emplace(out);
    for (const char* name : {"result.json", "result.csv", "result.txt"})
      outputs.push_back((dir / name).string());
  }
  if (!requests.empty()) outputs.push_back(requests);
  if (!trace.empty()) outputs.push_back(trace);
  std::vector<std::string> inputs;
  for (const InputFile& input : scenario.inputs) inputs.push_back(input.opened);
  check_outputs_differ(outputs, inputs);
  for (const std::string& path : outputs) check_can_write(path, replace);

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
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto add = [&](const std::string& path, std::string_view text) {
    files.push_back(std::make_unique<OutputFile>(path, replace));
    files.back()->write(text);
  };
  std::unique_ptr<ChromeTrace> chrome;
  if (!trace.empty()) {
    add(trace, "");
    chrome = std::make_unique<ChromeTrace>(
        [file = files.back().get()](std::string_view text) { file->write(text); });
    options.trace = [&](const std::string& strategy, const std::vector<std::string>& gpus,
                        const std::vector<std::string>& endpoints) {
      return &chrome->add_strategy(strategy, TraceNames{gpus, endpoints});
    };
  }
  std::optional<LiveRun> live_run;
  if (live) {
    LiveRun::choose(scenario, options, scenario.warnings);
    LiveRun::Start start;
    start.peers = peers;
    start.words = child_words(arguments, live_arguments, hardware, set);
    live_run.emplace(scenario, *live_options, start, say);
    live_run->take_over(options);
  }
  Result result = run_scenario(scenario, options);
  if (live_run) {
    live_run->end();
    result.live = live_run->facts();
  }
  progress.reset();
  if (draws > 0) add_uncertainty(result, run_draws(scenario, options, draws, jobs, context));

  std::string text;
  if (format == "json") {
    text = result_to_json(result);
  } else if (format == "csv") {
    text = result_to_csv(result);
  } else {
    text = result_to_table(result, context.columns);
  }
  if (!out.empty()) {
    add((dir / "result.json").string(), result_to_json(result));
    add((dir / "result.csv").string(), result_to_csv(result));
    add((dir / "result.txt").string(), result_to_table(result));
  }
  if (!requests.empty()) add(requests, requests_to_csv(result));
  if (chrome) chrome->finish();
  commit_all(files);
  if (folder) folder->keep();
  print(text);
  return 0;
}

}  // namespace kvlane::cli
