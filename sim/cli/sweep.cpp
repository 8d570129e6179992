#include "sim/cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>

#include "sim/base/check.h"
#include "sim/cli/parallel.h"
#include "sim/report/csv.h"
#include "sim/report/number_format.h"
#include "sim/report/result_csv.h"
#include "sim/report/result_json.h"
#include "sim/run/run.h"
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

JournalKey Sweep::run(const GridPoint& point, const std::vector<PlacedText>& strategies) {
  Scenario scenario = read(point);
  keep_strategies(scenario, strategies);
  std::string made_from = setup_.program + '\n';
  for (const InputFile& input : scenario.inputs) made_from += input.sha256 + '\n';
  for (const std::string& text : all_overrides(setup_, point)) made_from += text + '\n';
  for (const StrategyOptions& strategy : scenario.strategies) made_from += strategy.name + '\n';
  const JournalKey key = journal_key(made_from);
  if (journal_.has(key)) return key;
  RunOptions options;
  options.verdict = false;  // the study asks its own questions
  const Result result = run_scenario(scenario, options);
  check_result(result);
  std::string rows;
  for (const StrategyResult& s : result.strategies) rows += csv_line(strategy_fields(result, s));
  journal_.append(key, rows);
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

std::vector<CrossoverRow> Sweep::answer(const CrossoverQuestion& question, std::size_t axis,
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

  CrossoverRow row;
  row.point = grid_point(setup_.study, first);
  row.point[axis].clear();
  row.of = question.of.text;
  row.against = question.against.text;
  row.metric = question.metric.text;
  row.over = question.over.text;
  if (found.empty()) {
    row.better_below = row.better_above = name_of(winner_of(samples.front().ratio), question);
    return {row};
  }
  std::vector<CrossoverRow> answers;
  for (const Crossover& c : found) {
    row.better_below = name_of(c.below, question);
    row.better_above = name_of(c.above, question);
    row.interpolated = axis_text(c.interpolated, number.unit, false);
    row.low = text(c.low);
    row.high = text(c.high);
    row.grid_low = text(c.grid_low);
    row.grid_high = text(c.grid_high);
    row.runs = c.runs;
    answers.push_back(row);
  }
  return answers;
}

std::vector<CrossoverRow> Sweep::find_crossovers(const ProgressFn& progress) {
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
  std::vector<std::vector<CrossoverRow>> answers(tasks.size());
  std::atomic<std::size_t> done = 0;
  parallel_for(tasks.size(), setup_.jobs, [&](std::size_t t) {
    answers[t] = answer(*tasks[t].question, tasks[t].axis, tasks[t].first);
    progress(++done, tasks.size());
  });
  std::vector<CrossoverRow> rows;
  for (auto& some : answers) {
    for (CrossoverRow& row : some) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace kvlane::cli
