// kvlane sweep STUDY: a grid of runs on all cores, resumable, with crossover points.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/draws.h"
#include "sim/cli/hardware.h"
#include "sim/cli/output_file.h"
#include "sim/cli/shared_progress.h"
#include "sim/cli/sweep.h"
#include "sim/cli/version.h"
#include "sim/report/csv.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"
#include "sim/scenario/sha256.h"
#include "sim/study/study_check.h"
#include "sim/study/study_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr char kAbout[] =
    "kvlane sweep STUDY.yaml --out DIR: runs every point of the study's grid, then looks for the\n"
    "crossovers that it asks for. DIR/runs.csv has a row a run, in grid order; DIR/crossovers.csv "
    "where\n"
    "one strategy stops beating another. Killed and started again, it continues from "
    "DIR/journal.jsonl.\n"
    "On several machines: --shard 1/3 ... 3/3 into the same (or copied together) DIR, then once "
    "without.";

struct Shard {
  int number = 0;  // from 0
  int of = 1;
};

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.number);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = std::from_chars(slash ? first.ptr + 1 : end, end, shard.of);
  if (!slash || second.ec != std::errc() || second.ptr != end || shard.number < 1 ||
      shard.number > shard.of) {
    throw UsageError(
        fmt::format("sweep: --shard '{}'; expected I/N, such as 1/3", shortened(text)));
  }
  --shard.number;
  return shard;
}

// Replacing a result needs --force, unless a journal says that this is the same sweep continued.
// --force deletes what a sweep has written, nothing else.
void check_folder(const std::string& dir, const std::vector<std::string>& inputs, bool force) {
  const std::vector<std::string> journals = journals_in(dir);
  const Replace replace = force || !journals.empty() ? Replace::allow : Replace::refuse;
  const std::vector<std::string> results = {(fs::path(dir) / "runs.csv").string(),
                                            (fs::path(dir) / "crossovers.csv").string()};
  check_outputs_differ(results, inputs);
  for (const std::string& path : results) check_can_write(path, replace);
  if (!force || journals.empty()) return;
  for (const std::string& path : results) fs::remove(path);
  for (const std::string& path : journals) fs::remove(path);
}

void write_runs(const Study& study, const Sweep& sweep, OutputFile& file) {
  file.write(csv_line(Sweep::columns(study)));
  for (std::size_t i = 0; i < grid_size(study); ++i) {
    // Axis values, then a row of the run: both are CSV already.
    std::string prefix = csv_line(grid_point(study, i));
    prefix.back() = ',';
    const std::string rows = sweep.rows(i);
    std::size_t at = 0;
    while (at < rows.size()) {
      const std::size_t end = rows.find('\n', at);
      file.write(prefix);
      file.write(std::string_view(rows).substr(at, end + 1 - at));
      at = end + 1;
    }
  }
}

std::string crossovers_csv(const Study& study, const std::vector<CrossoverRow>& rows) {
  std::vector<std::string> columns;
  for (const GridAxis& axis : study.grid) columns.push_back(axis.key.text);
  columns.insert(columns.end(), {"of", "against", "metric", "over", "better_below", "better_above",
                                 "interpolated", "low", "high", "grid_low", "grid_high", "runs",
                                 "low90", "high90", "draws_without"});
  std::string text = csv_line(columns);
  for (const CrossoverRow& row : rows) {
    std::vector<std::string> fields = row.point;
    fields.insert(fields.end(),
                  {row.of, row.against, row.metric, row.over, row.better_below, row.better_above,
                   row.interpolated, row.low, row.high, row.grid_low, row.grid_high,
                   fmt::format("{}", row.runs), row.low90, row.high90,
                   row.low90.empty() ? "" : fmt::format("{}", row.draws_without)});
    text += csv_line(fields);
  }
  return text;
}

struct Errors {
  std::int64_t draws = 0;
  std::vector<std::string> unknown;  // used without a stated error
};

std::string crossovers_json(const Study& study, const std::vector<CrossoverRow>& rows,
                            const Errors& errors) {
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.sweep/1").member("study", study.name);
  if (errors.draws > 0) {
    json.key("uncertainty").begin_object(JsonWriter::Layout::one_line);
    json.member("draws", errors.draws).key("without_error").begin_array();
    for (const std::string& name : errors.unknown) json.value(name);
    json.end_array().end_object();
  }
  json.key("rows").begin_array();
  const auto text = [&](const char* name, const std::string& value) {
    json.key(name);
    value.empty() ? json.null() : json.value(value);
  };
  for (const CrossoverRow& row : rows) {
    json.begin_object(JsonWriter::Layout::one_line);
    json.key("point").begin_object();
    for (std::size_t a = 0; a < row.point.size(); ++a) {
      if (!row.point[a].empty()) json.member(study.grid[a].key.text, row.point[a]);
    }
    json.end_object();
    text("of", row.of);
    text("against", row.against);
    text("metric", row.metric);
    text("over", row.over);
    text("better_below", row.better_below);
    text("better_above", row.better_above);
    text("interpolated", row.interpolated);
    text("low", row.low);
    text("high", row.high);
    json.member("runs", static_cast<std::int64_t>(row.runs));
    if (errors.draws > 0) {
      text("low90", row.low90);
      text("high90", row.high90);
      json.member("draws_without", row.draws_without);
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

// "6.1 Gbps to 7.9 Gbps (12 of 200 draws without)".
std::string interval_text(const CrossoverRow& row, std::int64_t draws) {
  if (row.low90.empty()) return "-";
  std::string text = row.low90 + " to " + row.high90;
  if (row.draws_without > 0)
    text += fmt::format(" ({} of {} draws without)", row.draws_without, draws);
  return text;
}

std::string crossovers_table(const Study& study, const std::vector<CrossoverRow>& rows,
                             const Errors& errors, int width) {
  std::string out;
  for (const CrossoverQuestion& question : study.crossovers) {
    out += wrapped(fmt::format("{}: {} against {} over {}", question.metric.text, question.of.text,
                               question.against.text, question.over.text),
                   width, 2);
    std::vector<std::string> header;
    for (const GridAxis& axis : study.grid) {
      if (axis.key.text != question.over.text) header.push_back(axis.key.text);
    }
    if (header.empty()) header.push_back("study");
    header.insert(header.end(), {"below", "above", "changes between"});
    if (errors.draws > 0) header.push_back(fmt::format("90 % of {} draws", errors.draws));
    TextTable table(header);
    for (std::size_t c = 1; c < header.size(); ++c) table.align_left(c);
    for (const CrossoverRow& row : rows) {
      if (row.of != question.of.text || row.against != question.against.text ||
          row.metric != question.metric.text || row.over != question.over.text)
        continue;
      std::vector<std::string> cells;
      for (std::size_t a = 0; a < row.point.size(); ++a) {
        if (study.grid[a].key.text != question.over.text) cells.push_back(row.point[a]);
      }
      if (cells.empty()) cells.push_back(study.name);
      cells.push_back(row.better_below);
      cells.push_back(row.better_above);
      cells.push_back(row.low.empty() ? "nowhere on this grid" : row.low + " and " + row.high);
      if (errors.draws > 0) cells.push_back(interval_text(row, errors.draws));
      table.add_row(std::move(cells));
    }
    out += table.render(width) + '\n';
  }
  if (!errors.unknown.empty()) {
    out += wrapped(fmt::format("warning: no error is stated for {}: the intervals take their times "
                               "as they are",
                               fmt::join(errors.unknown, ", ")),
                   width, 2);
  }
  return out;
}

}  // namespace

int sweep_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::vector<std::string> set;
  std::string out, format, shard_text, draws_text, hardware;
  int jobs = 0;
  arguments.options.add_options()("out", po::value(&out), "folder for the results (required)")(
      "jobs,j", po::value(&jobs)->default_value(0, "all cores"), "threads")(
      "set", po::value(&set)->composing(), "override a key at every point: a.b.c=value")(
      "hardware", po::value(&hardware), kHardwareHelp)(
      "shard", po::value(&shard_text),
      "I/N: run every N-th point from the I-th, write only the journal")(
      "uncertainty", po::value(&draws_text),
      "N: find each crossover N more times (2 to 10000), each with another error of the models; "
      "90 % intervals. Instead of the study's own `uncertainty`")(
      "format", po::value(&format)->default_value("table"),
      "of the crossovers: table, json or csv")("force", "start anew where a result is");
  if (!arguments.parse("sweep", kAbout, args)) return 0;
  if (arguments.positional.size() != 1) {
    throw UsageError(
        fmt::format("sweep: {} files; expected one STUDY.yaml", arguments.positional.size()));
  }
  expect_name(arguments, "out", out);
  expect_name(arguments, "hardware", hardware);
  if (out.empty()) throw UsageError("sweep: no --out; expected the folder for the results");
  expect_word("--format", format, {"table", "json", "csv"});
  const Shard shard = arguments.has("shard") ? parse_shard(shard_text) : Shard{};
  if (jobs < 0) throw UsageError(fmt::format("sweep: -j {}; expected at least 1", jobs));
  if (jobs == 0) jobs = all_cores();

  Errors errors;
  if (arguments.has("uncertainty")) errors.draws = parse_draws("sweep", draws_text);
  InputFiles files({context.preset_dir});
  const Study study = read_study(arguments.positional[0], files);
  if (errors.draws == 0) errors.draws = study.uncertainty;
  const std::vector<std::string> own = std::move(set);
  set = hardware_overrides(hardware, study.scenario, context);
  set.insert(set.end(), own.begin(), own.end());
  const SweepSetup setup{study,
                         set,
                         {context.preset_dir},
                         fmt::format("kvlane {} {}", kVersion, kCommit),
                         jobs,
                         shard.number,
                         shard.of,
                         errors.draws};
  check_study(study, set, setup.preset_dirs);

  OutputFolder folder(out);
  std::vector<std::string> inputs = {study.file.opened, study.scenario};
  if (!hardware.empty()) inputs.push_back(hardware);
  check_folder(out, inputs, arguments.has("force"));
  std::string identity = study.file.sha256;
  for (const std::string& text : set) identity += '\n' + text;
  const std::string name = shard_text.empty()
                               ? "journal.jsonl"
                               : fmt::format("journal-{}-of-{}.jsonl", shard.number + 1, shard.of);
  Journal journal(out, name, sha256_hex(identity));
  folder.keep();  // from here on there is something to continue
  Sweep sweep(setup, journal);
  {
    SharedProgress progress("runs", context);
    sweep.run_grid([&](std::size_t done, std::size_t total) { progress(done, total); });
  }
  if (!shard_text.empty()) {
    print(fmt::format("shard {}/{} of {} runs is in {}\n", shard.number + 1, shard.of,
                      grid_size(study), (fs::path(out) / name).string()));
    return 0;
  }
  std::vector<FoundCrossover> found;
  {
    SharedProgress progress("crossovers", context);
    found =
        sweep.find_crossovers([&](std::size_t done, std::size_t total) { progress(done, total); });
  }
  {
    SharedProgress progress("draws", context);
    sweep.add_intervals(found, [&](std::size_t done, std::size_t total) { progress(done, total); });
  }
  if (errors.draws > 0 && !found.empty()) errors.unknown = sweep.without_error();
  std::vector<CrossoverRow> crossovers;
  for (FoundCrossover& one : found) crossovers.push_back(std::move(one.row));
  const std::string runs_path = (fs::path(out) / "runs.csv").string();
  const std::string crossovers_path = (fs::path(out) / "crossovers.csv").string();
  std::vector<std::unique_ptr<OutputFile>> results;
  results.push_back(std::make_unique<OutputFile>(runs_path, Replace::allow));
  write_runs(study, sweep, *results.back());
  results.push_back(std::make_unique<OutputFile>(crossovers_path, Replace::allow));
  results.back()->write(crossovers_csv(study, crossovers));
  commit_all(results);
  if (format == "json") {
    print(crossovers_json(study, crossovers, errors));
  } else if (format == "csv") {
    print(crossovers_csv(study, crossovers));
  } else {
    print(fmt::format("{}: {} points in {}\n\n", study.name, grid_size(study), runs_path));
    print(crossovers_table(study, crossovers, errors, context.columns));
  }
  return 0;
}

}  // namespace kvlane::cli
