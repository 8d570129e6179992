#include "sim/cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>

#include "sim/base/check.h"
#include "sim/cli/draws.h"
#include "sim/cli/parallel.h"
#include "sim/report/csv.h"
#include "sim/report/quantile.h"
#include "sim/report/result_csv.h"
#include "sim/report/result_json.h"
#include "sim/run/run.h"
#include "sim/run/uncertainty.h"
#include "sim/scenario/scenario_file.h"
#include "sim/study/crossover.h"

namespace kvlane::cli {
namespace {

// A metric of zero (the stall of `ideal`) has no logarithm: a picosecond stands for it.
constexpr double kSmallest = 1e-12;

std::vector<std::string> all_overrides(const SweepSetup& setup, const GridPoint& point) {
  std::vector<std::string> overrides = setup.set;
  for (std::string& own : overrides_of(setup.study, point)) overrides.push_back(std::move(own));
  return overrides;
}

// Steps of an axis in the enumeration of the grid.
std::size_t stride(const Study& study, std::size_t axis) {
  std::size_t size = 1;
  for (std::size_t a = axis + 1; a < study.grid.size(); ++a) size *= study.grid[a].values.size();
  return size;
}

std::string name_of(Winner winner, const CrossoverQuestion& question) {
  switch (winner) {
    case Winner::of:
      return question.of.text;
    case Winner::against:
      return question.against.text;
    case Winner::neither:
      break;
  }
  return "neither";
}

std::size_t axis_of(const Study& study, const CrossoverQuestion& question) {
  const auto it = std::find_if(study.grid.begin(), study.grid.end(), [&](const GridAxis& axis) {
    return axis.key.text == question.over.text;
  });
  KVLANE_CHECK(it != study.grid.end(), "no axis '{}'", question.over.text);
  return static_cast<std::size_t>(it - study.grid.begin());
}

// The study asks its own questions.
const RunOptions& silent() {
  static const RunOptions options = [] {
    RunOptions o;
    o.verdict = false;
    return o;
  }();
  return options;
}

std::string rows_of(const Result& result) {
  check_result(result);
  std::string rows;
  for (const StrategyResult& s : result.strategies) rows += csv_line(strategy_fields(result, s));
  return rows;
}

// A point that many draws run at: its selection statistics are made once a thread.
struct DrawnPoint {
  explicit DrawnPoint(Scenario s) : scenario(std::move(s)) {}
  const Scenario scenario;
  Pool<DrawRuns> runs{[this] { return std::make_unique<DrawRuns>(scenario, silent()); }};
};

}  // namespace

Sweep::Sweep(const SweepSetup& setup, Journal& journal) : setup_(setup), journal_(journal) {}

Scenario Sweep::read(const GridPoint& point) const {
  return read_scenario(setup_.study.scenario, all_overrides(setup_, point), setup_.preset_dirs);
}

std::vector<std::string> Sweep::columns(const Study& study) {
  std::vector<std::string> columns;
  for (const GridAxis& axis : study.grid) columns.push_back(axis.key.text);
  for (std::string& column : strategy_columns()) columns.push_back(std::move(column));
  return columns;
}

// `draw`: empty for the nominal run.
JournalKey Sweep::key_of(const Scenario& scenario, const GridPoint& point,
                         const std::string& draw) const {
  std::string made_from = setup_.program + '\n';
  for (const InputFile& input : scenario.inputs) made_from += input.sha256 + '\n';
  for (const std::string& text : all_overrides(setup_, point)) made_from += text + '\n';
  for (const StrategyOptions& strategy : scenario.strategies) made_from += strategy.name + '\n';
  if (!draw.empty()) made_from += "draw " + draw + '\n';
  return journal_key(made_from);
}

JournalKey Sweep::run(const GridPoint& point, const std::vector<PlacedText>& strategies) {
  Scenario scenario = read(point);
  keep_strategies(scenario, strategies);
  const JournalKey key = key_of(scenario, point, "");
  if (journal_.has(key)) return key;
  journal_.append(key, rows_of(run_scenario(scenario, silent())));
  return key;
}

void Sweep::run_grid(const ProgressFn& progress) {
  const std::size_t size = grid_size(setup_.study);
  keys_.assign(size, {});
  const auto shard = static_cast<std::size_t>(setup_.shard);
  const auto shards = static_cast<std::size_t>(setup_.shards);
  const std::size_t mine = size > shard ? (size - shard + shards - 1) / shards : 0;
  std::atomic<std::size_t> done = 0;
  parallel_for(mine, setup_.jobs, [&](std::size_t i) {
    const std::size_t index = shard + i * shards;
    keys_[index] = run(grid_point(setup_.study, index), setup_.study.strategies);
    progress(++done, mine);
  });
}

double Sweep::ratio(const std::string& rows, const CrossoverQuestion& question) const {
  const std::vector<std::string> columns = strategy_columns();
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(columns.begin(), columns.end(), name) -
                                    columns.begin());
  };
  const std::size_t strategy = column("strategy");
  const std::size_t metric = column(metric_column(question.metric));
  double of = -1;
  double against = -1;
  std::size_t at = 0;
  while (at < rows.size()) {
    const std::size_t end = rows.find('\n', at);
    const std::vector<std::string> fields = csv_fields(std::string_view(rows).substr(at, end - at));
    at = end + 1;
    if (fields.size() != columns.size()) continue;
    const double value = std::max(std::strtod(fields[metric].c_str(), nullptr), kSmallest);
    if (fields[strategy] == question.of.text) of = value;
    if (fields[strategy] == question.against.text) against = value;
  }
  KVLANE_CHECK(of > 0 && against > 0, "a run without '{}' or '{}'", question.of.text,
               question.against.text);
  return of / against;
}

std::vector<FoundCrossover> Sweep::answer(const CrossoverQuestion& question, std::size_t axis,
                                          std::size_t first) {
  const GridAxis& swept = setup_.study.grid[axis];
  const std::size_t step = stride(setup_.study, axis);
  GridPoint point = grid_point(setup_.study, first);
  std::vector<AxisSample> samples;
  AxisNumber number;
  bool whole = true;
  for (std::size_t v = 0; v < swept.values.size(); ++v) {
    number = parse_axis_number(swept.values[v].text, swept.values[v].place);
    whole = whole && number.whole;
    samples.push_back({number.value, ratio(rows(first + v * step), question)});
  }
  std::sort(samples.begin(), samples.end(),
            [](const AxisSample& a, const AxisSample& b) { return a.x < b.x; });
  const auto text = [&](double x) { return axis_text(x, number.unit, whole); };
  const auto snap = [&](double x) { return parse_axis_number(text(x), swept.key.place).value; };
  const auto ratio_at = [&](double x) {
    point[axis] = text(x);
    return ratio(journal_.text(run(point, {question.of, question.against})), question);
  };
  const auto found = kvlane::find_crossovers(samples, question.tolerance, snap, ratio_at);

  FoundCrossover one;
  one.question = &question;
  one.axis = axis;
  one.point = grid_point(setup_.study, first);
  one.grid_low = samples.front().x;
  one.grid_high = samples.back().x;
  one.unit = number.unit;
  one.whole = whole;
  CrossoverRow& row = one.row;
  row.point = one.point;
  row.point[axis].clear();
  row.of = question.of.text;
  row.against = question.against.text;
  row.metric = question.metric.text;
  row.over = question.over.text;
  if (found.empty()) {
    row.better_below = row.better_above = name_of(winner_of(samples.front().ratio), question);
    return {one};
  }
  std::vector<FoundCrossover> answers;
  one.changes = true;
  for (const Crossover& c : found) {
    one.crossover = c;
    row.better_below = name_of(c.below, question);
    row.better_above = name_of(c.above, question);
    row.interpolated = axis_text(c.interpolated, number.unit, false);
    row.low = text(c.low);
    row.high = text(c.high);
    row.grid_low = text(c.grid_low);
    row.grid_high = text(c.grid_high);
    row.runs = c.runs;
    answers.push_back(one);
  }
  return answers;
}

std::vector<FoundCrossover> Sweep::find_crossovers(const ProgressFn& progress) {
  struct Task {
    const CrossoverQuestion* question;
    std::size_t axis, first;
  };
  std::vector<Task> tasks;
  for (const CrossoverQuestion& question : setup_.study.crossovers) {
    const std::size_t axis = axis_of(setup_.study, question);
    const std::size_t step = stride(setup_.study, axis);
    for (std::size_t i = 0; i < grid_size(setup_.study); ++i) {
      if (i / step % setup_.study.grid[axis].values.size() == 0)
        tasks.push_back({&question, axis, i});
    }
  }
  std::vector<std::vector<FoundCrossover>> answers(tasks.size());
  std::atomic<std::size_t> done = 0;
  parallel_for(tasks.size(), setup_.jobs, [&](std::size_t t) {
    answers[t] = answer(*tasks[t].question, tasks[t].axis, tasks[t].first);
    progress(++done, tasks.size());
  });
  std::vector<FoundCrossover> all;
  for (auto& some : answers) {
    for (FoundCrossover& one : some) all.push_back(std::move(one));
  }
  return all;
}

// Draws share the nominal bracket's ends, where all of them begin; what lies further out or in
// between is a point of few draws. The journal has each (point, draw) once.
void Sweep::add_interval(FoundCrossover& found, const std::function<void()>& progress) {
  const CrossoverQuestion& question = *found.question;
  const auto text = [&](double x) { return axis_text(x, found.unit, found.whole); };
  const auto snap = [&](double x) {
    return parse_axis_number(text(x), setup_.study.grid[found.axis].key.place).value;
  };
  const auto at = [&](double x) {
    GridPoint point = found.point;
    point[found.axis] = text(x);
    return point;
  };
  const auto scenario_at = [&](const GridPoint& point) {
    Scenario scenario = read(point);
    keep_strategies(scenario, {question.of, question.against});
    return scenario;
  };
  DrawnPoint low(scenario_at(at(found.crossover.low)));
  DrawnPoint high(scenario_at(at(found.crossover.high)));
  const auto rows_at = [&](double x, std::size_t draw) {
    const GridPoint point = at(x);
    const auto in = [&](DrawnPoint& drawn) {
      const JournalKey key = key_of(drawn.scenario, point, fmt::format("{}", draw));
      if (!journal_.has(key)) {
        journal_.append(key,
                        drawn.runs.with([&](DrawRuns& runs) { return rows_of(runs.run(draw)); }));
      }
      return journal_.text(key);
    };
    if (x == found.crossover.low) return in(low);
    if (x == found.crossover.high) return in(high);
    DrawnPoint here(scenario_at(point));
    return in(here);
  };
  std::vector<MovedCrossover> moved(static_cast<std::size_t>(setup_.draws));
  parallel_for(moved.size(), setup_.jobs, [&](std::size_t draw) {
    moved[draw] =
        moved_crossover(found.crossover, found.grid_low, found.grid_high, question.tolerance, snap,
                        [&](double x) { return ratio(rows_at(x, draw), question); });
    progress();
  });
  std::vector<double> values;
  for (const MovedCrossover& one : moved) {
    values.push_back(one.x);
    if (!one.found) ++found.row.draws_without;
  }
  const Interval interval = interval_of(std::move(values));
  found.row.low90 = axis_text(interval.low, found.unit, false);
  found.row.high90 = axis_text(interval.high, found.unit, false);
}

void Sweep::add_intervals(std::vector<FoundCrossover>& found, const ProgressFn& progress) {
  if (setup_.draws == 0) return;
  std::size_t total = 0;
  for (const FoundCrossover& one : found) total += one.changes ? 1U : 0U;
  total *= static_cast<std::size_t>(setup_.draws);
  std::atomic<std::size_t> done = 0;
  for (FoundCrossover& one : found) {
    if (one.changes) add_interval(one, [&] { progress(++done, total); });
  }
}

std::vector<std::string> Sweep::without_error() const {
  Scenario scenario = read(grid_point(setup_.study, 0));
  keep_strategies(scenario, setup_.study.strategies);
  return run_scenario(scenario, silent()).without_error;
}

}  // namespace kvlane::cli
