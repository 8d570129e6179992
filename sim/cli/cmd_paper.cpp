// kvlane paper: the paper's claims beside our numbers.

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <thread>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/paper_claims.h"
#include "sim/cli/progress.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane paper: runs scenarios/paper and prints each claim of SmartGen's paper, our number in "
    "both\n"
    "readings of TTST, and where a difference comes from. --readings changes one open point at a "
    "time\n"
    "and shows which claims that moves.";
constexpr double kMoved = 0.02;  // a claim has moved when it changes by more than this share

PaperRuns run_all(const std::string& what, const Context& context, int jobs,
                  const Deviation& deviation) {
  const std::vector<Experiment> experiments = paper_experiments();
  Progress progress(what, static_cast<std::int64_t>(experiments.size()), context.stderr_is_terminal,
                    context.columns);
  return PaperRuns(
      experiments, context.preset_dir, jobs, deviation,
      [&](std::size_t done, std::size_t) { progress.set(static_cast<std::int64_t>(done)); });
}

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

void print_claims(const PaperRuns& runs, bool json, int columns) {
  JsonWriter rows;
  rows.begin_object().member("schema", "kvlane.paper/1").key("rows").begin_array();
  TextTable table({"claim", "paper", "ours", "reading"});
  table.align_left(3);
  std::vector<std::string> reasons;
  for (const Claim& claim : paper_claims()) {
    const std::optional<double> ours = claim.ours(runs);
    const std::string why = claim.why(runs);
    rows.begin_object(JsonWriter::Layout::one_line)
        .member("claim", claim.text)
        .member("paper", claim.paper)
        .member("ours", ours)
        .member("reading", claim.reading)
        .member("why", why)
        .end_object();
    table.add_row({claim.text, number(claim.paper), number(ours), claim.reading});
    reasons.push_back(fmt::format("{} ({}): {}", claim.text, claim.reading, why));
  }
  if (json) {
    print(rows.end_array().end_object().finish());
    return;
  }
  print(table.render(columns));
  print("\nWhere the numbers come from\n");
  for (const std::string& reason : reasons) print(wrapped(reason, columns, 4) + "\n");
}

void print_readings(const Context& context, int jobs, bool json) {
  const std::vector<Claim> claims = paper_claims();
  const PaperRuns base = run_all("defaults", context, jobs, nullptr);
  JsonWriter rows;
  rows.begin_object().member("schema", "kvlane.paper_readings/1").key("rows").begin_array();
  std::string text;
  for (const Reading& reading : paper_readings()) {
    const PaperRuns runs = run_all(reading.name, context, jobs, reading.deviation);
    TextTable table({"claim", "reading", "paper", "default", "then"});
    table.align_left(1);
    bool any = false;
    for (const Claim& claim : claims) {
      const std::optional<double> before = claim.ours(base);
      const std::optional<double> after = claim.ours(runs);
      rows.begin_object(JsonWriter::Layout::one_line)
          .member("deviation", reading.name)
          .member("claim", claim.text)
          .member("reading", claim.reading)
          .member("paper", claim.paper)
          .member("default", before)
          .member("ours", after)
          .end_object();
      const bool moved = before.has_value() != after.has_value() ||
                         (before && std::abs(*after / *before - 1) > kMoved);
      if (!moved) continue;
      any = true;
      table.add_row(
          {claim.text, claim.reading, number(claim.paper), number(before), number(after)});
    }
    text += fmt::format("{}: {}\n", reading.name, reading.what);
    text += any ? table.render(context.columns)
                : fmt::format("no claim moves by more than {:.0f} %\n", 100 * kMoved);
    text += "\n";
  }
  print(json ? rows.end_array().end_object().finish() : text);
}

}  // namespace

int paper_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format;
  int jobs = 0;
  arguments.options.add_options()("format", po::value(&format)->default_value("table"),
                                  "table or json")(
      "readings", "one deviation at a time from the defaults: which claims move")(
      "jobs,j", po::value(&jobs)->default_value(0), "threads (0: all cores)");
  if (!arguments.parse("paper", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  if (!arguments.positional.empty()) throw UsageError("paper: takes no file");
  if (jobs < 0 || jobs > 1024)
    throw UsageError(fmt::format("paper: -j {}; expected 0 to 1024", jobs));
  if (jobs == 0) jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (arguments.has("readings")) {
    print_readings(context, jobs, format == "json");
  } else {
    print_claims(run_all("scenarios/paper", context, jobs, nullptr), format == "json",
                 context.columns);
  }
  return 0;
}

}  // namespace kvlane::cli
