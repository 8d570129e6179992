#include "sim/cli/sim_vs_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "calibrate/live/link/link_nic.h"
#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/scenario_work.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/shape/shaped_pair.h"
#include "sim/cli/hardware.h"
#include "sim/cli/live_run.h"
#include "sim/cli/own_calibration.h"
#include "sim/cli/progress.h"
#include "sim/cli/unfinished.h"
#include "sim/report/json_writer.h"
#include "sim/report/metric_list.h"
#include "sim/report/number_format.h"
#include "sim/report/text_table.h"
#include "sim/scenario/quantity.h"
#include "sim/scenario/scenario_file.h"

namespace kvlane::cli {
namespace {

struct Row {
  std::string strategy, metric;
  double sim = 0, live = 0;
  std::optional<double> error;  // (sim - live) / live
};

// The namespaces of a shaped link go with this process, however it ends.
class NotedSpaces {
 public:
  NotedSpaces() = default;
  ~NotedSpaces() {
    for (const int slot : slots_) forget_unfinished(slot);
  }
  NotedSpaces(const NotedSpaces&) = delete;
  NotedSpaces& operator=(const NotedSpaces&) = delete;
  void note(const std::string& space) { slots_.push_back(note_unfinished(space, true)); }

 private:
  std::vector<int> slots_;
};

// Mean of a metric, or bytes of a lane, by name.
std::map<std::string, double> values_of(const StrategyResult& s) {
  std::map<std::string, double> values;
  values["ttst_s"] = s.ttst_s.mean;
  values["second_token_s"] = s.second_token_s.mean;
  values["tbt_s"] = s.tbt_s.mean;
  values["jct_s"] = s.jct_s.mean;
  for (const auto& lane : kLaneBytes) {
    values[std::string("bytes.") + lane.name] = static_cast<double>(s.*lane.member);
  }
  return values;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<Row> rows_of(const Result& sim, const std::vector<Result>& live) {
  std::vector<Row> rows;
  for (const StrategyResult& s : sim.strategies) {
    const auto simulated = values_of(s);
    std::map<std::string, std::vector<double>> measured;
    for (const Result& result : live) {
      for (const StrategyResult& l : result.strategies) {
        if (l.name != s.name) continue;
        for (const auto& [metric, value] : values_of(l)) measured[metric].push_back(value);
      }
    }
    if (measured.empty()) continue;  // it moves nothing
    for (const auto& [metric, value] : simulated) {
      Row row{s.name, metric, value, median_of(measured.at(metric)), {}};
      if (row.live != 0) {
        row.error = (row.sim - row.live) / row.live;
      } else if (row.sim == 0) {
        row.error = 0;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Median over strategies of the sizes of the errors, by metric.
std::vector<std::pair<std::string, double>> medians(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<double>> by_metric;
  for (const Row& row : rows) {
    if (row.error) by_metric[row.metric].push_back(std::abs(*row.error));
  }
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [metric, errors] : by_metric) result.emplace_back(metric, median_of(errors));
  return result;
}

std::string to_json(const std::vector<Row>& rows, const std::string& about) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "kvlane.sim_vs_live/1").member("about", about);
  json.key("rows").begin_array();
  for (const Row& row : rows) {
    json.begin_object(JsonWriter::Layout::one_line);
    json.member("strategy", row.strategy).member("metric", row.metric);
    json.member("sim", row.sim).member("live", row.live).member("error", row.error);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.finish();
}

std::string to_table(const std::vector<Row>& rows, const std::string& about, int width) {
  TextTable table({"strategy", "metric", "sim", "live", "error %"});
  std::string last;
  for (const Row& row : rows) {
    table.add_row({row.strategy == last ? "" : row.strategy, row.metric, significant(row.sim),
                   significant(row.live),
                   row.error ? fmt::format("{:+.1f}", 100 * *row.error) : "-"});
    last = row.strategy;
  }
  std::string text = about + "\n\n" + table.render(width) + "\nmedian |error| over strategies:";
  for (const auto& [metric, error] : medians(rows)) {
    text += fmt::format(" {} {:.1f} %", metric, 100 * error);
  }
  return text + "\n";
}

}  // namespace

int sim_vs_live(const SimVsLive& wanted, const Arguments& arguments,
                const LiveArguments& live_arguments, const Context& context) {
  live::LiveOptions options = live_arguments.options("compare", arguments, context);
  const live::Say say = say_on_stderr();
  {
    // What is wrong with the scenario is said before anything is made or measured.
    Scenario asked = read_scenario(wanted.scenario, wanted.set, {context.preset_dir});
    live::places_of(asked);
    RunOptions any;
    LiveRun::choose(asked, any, asked.warnings);
  }
  if (options.compute == live::ComputeKind::automatic) {
    options.compute = live::choose_compute(options);
  }
  std::vector<std::string> changes;
  std::string hardware = wanted.hardware;
  if (options.compute != live::ComputeKind::modeled && hardware.empty()) {
    hardware = own_calibration(options, wanted.recalibrate, context, say);
  }
  for (const std::string& change : hardware_overrides(hardware, wanted.scenario, context)) {
    changes.push_back(change);
  }
  changes.insert(changes.end(), wanted.set.begin(), wanted.set.end());

  // One processor a role, where there are two.
  const std::vector<int> processors = live::usable_processor_list();
  LiveRun::Start start;
  if (options.processors.empty() && processors.size() >= 2) {
    options.processors = {processors[0]};
    start.prefill_processors = {processors[1]};
  }
  NotedSpaces spaces;
  std::optional<live::ShapedPair> shaped;
  std::string host = "127.0.0.1";
  if (wanted.shape) {
    shaped.emplace(*wanted.shape, [&](const std::string& space) { spaces.note(space); });
    start.enter = shaped->prefill_space();
    host = shaped->prefill_address();
    live::enter_space(shaped->decode_space());
    if (options.secret.empty()) {
      // Between two namespaces of this process; still not loopback.
      options.secret = live::random_secret();
    }
  }
  start.listen = host + ":0";
  start.secret = options.secret;

  // The link, by the transport that the runs will take.
  say("measuring the link");
  live::NicWords nic;
  {
    live::ChildRole answering(LiveRun::child_words({"calibrate", "link", "--listen", start.listen},
                                                   live_arguments.words(arguments), start),
                              start.enter, start.secret);
    const std::string address = answering.wait_until_listening(std::chrono::seconds(60));
    const live::LinkOptions link;
    live::LinkProbe probe(options, link, live::parse_address(address, "--peer"), say);
    probe.verify();
    nic = live::measure_nic(probe, wanted.shape);
    probe.close();
  }
  const Scenario first = read_scenario(wanted.scenario, changes, {context.preset_dir});
  for (std::size_t i = 0; i < first.instances.size(); ++i) {
    changes.push_back(fmt::format("instances.{}.nic={}", i, nic.yaml));
  }
  Scenario scenario = read_scenario(wanted.scenario, changes, {context.preset_dir});

  RunOptions sim_options;
  sim_options.verdict = false;
  if (options.compute != live::ComputeKind::modeled) {
    say("timing the scenario's work");
    const live::WorkLists lists = live::work_lists(scenario);
    sim_options.tables = live::as_tables(lists);
    run_scenario(scenario, sim_options);
    sim_options.tables = live::time_work(scenario, options, options.compute, lists);
  }

  const Result sim = run_scenario(scenario, sim_options);

  options.changes = changes;
  options.ends_here = 2;
  start.words = {wanted.scenario};
  for (const std::string& change : changes)
    start.words.insert(start.words.end(), {"--set", change});
  for (const std::string& word : live_arguments.words(arguments)) start.words.push_back(word);
  RunOptions live_options;
  LiveRun::choose(scenario, live_options, scenario.warnings);
  LiveRun live_run(scenario, options, start, say);
  live_run.take_over(live_options);
  std::vector<Result> live_results;
  {
    Progress progress("live runs", wanted.runs, context.stderr_is_terminal, context.columns);
    for (int i = 0; i < wanted.runs; ++i) {
      live_results.push_back(run_scenario(scenario, live_options));
      progress.advance();
    }
  }
  live_run.end();

  const std::vector<Row> rows = rows_of(sim, live_results);
  const std::string about = fmt::format(
      "{}: {} runs of each strategy by {}, compute {}{}; link as measured: {}", scenario.name,
      wanted.runs, live_run.facts().peers.front().transport, live_run.facts().compute,
      wanted.shape ? fmt::format(", shaped to {}", format_rate(wanted.shape->bits_per_sec())) : "",
      nic.yaml);
  print(wanted.format == "json" ? to_json(rows, about) : to_table(rows, about, context.columns));
  return 0;
}

}  // namespace kvlane::cli
