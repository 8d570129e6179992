#pragma once
// Runs a study: every point of its grid and the crossover questions, on several threads, through
// the journal. What comes out depends on the study alone, not on the number of threads or on kills.

#include <functional>
#include <string>
#include <vector>

#include "sim/cli/journal.h"
#include "sim/scenario/scenario.h"
#include "sim/study/crossover.h"
#include "sim/study/study.h"

namespace kvlane::cli {

struct SweepSetup {
  const Study& study;
  std::vector<std::string> set;  // --set for every point, before the grid's own
  std::vector<std::string> preset_dirs;
  std::string program;  // version and commit: another program's runs are not taken over
  int jobs = 1;
  int shard = 0, shards = 1;  // this process runs the points with index % shards == shard
  std::int64_t draws = 0;     // of the models' errors, for the intervals of crossovers; 0: none
};

struct CrossoverRow {
  std::vector<std::string> point;  // values of the axes; empty at the one that is swept
  std::string of, against, metric, over;
  std::string better_below, better_above;  // a strategy, or "neither"
  std::string interpolated, low, high;     // empty where nothing changes
  std::string grid_low, grid_high;
  int runs = 0;
  // With draws, where something changes: 5 % and 95 % of the draws' crossovers, and how many draws
  // have none on the grid and count as its end.
  std::string low90, high90;
  std::int64_t draws_without = 0;
};

// A nominal crossover with what finding it again in a draw needs.
struct FoundCrossover {
  CrossoverRow row;
  const CrossoverQuestion* question = nullptr;
  std::size_t axis = 0;
  GridPoint point;
  Crossover crossover;
  double grid_low = 0, grid_high = 0;  // ends of the axis
  std::string unit;
  bool whole = false;
  bool changes = false;
};

class Sweep {
 public:
  Sweep(const SweepSetup& setup, Journal& journal);

  // Runs what the journal does not have yet; `progress(done, of)` from any thread.
  using ProgressFn = std::function<void(std::size_t, std::size_t)>;
  void run_grid(const ProgressFn& progress);
  std::vector<FoundCrossover> find_crossovers(const ProgressFn& progress);
  // Fills the intervals of the rows, when there are draws.
  void add_intervals(std::vector<FoundCrossover>& found, const ProgressFn& progress);
  // What the runs use without a stated error, by the first point of the grid.
  std::vector<std::string> without_error() const;

  // After run_grid without shards: the rows of a point, each a CSV line without the axis values.
  std::string rows(std::size_t index) const { return journal_.text(keys_[index]); }
  static std::vector<std::string> columns(const Study& study);

 private:
  Scenario read(const GridPoint& point) const;
  JournalKey key_of(const Scenario& scenario, const GridPoint& point,
                    const std::string& draw) const;
  // Runs the point unless the journal has it; the key under which its rows are.
  JournalKey run(const GridPoint& point, const std::vector<PlacedText>& strategies);
  void add_interval(FoundCrossover& found, const std::function<void()>& progress);
  double ratio(const std::string& rows, const CrossoverQuestion& question) const;
  std::vector<FoundCrossover> answer(const CrossoverQuestion& question, std::size_t axis,
                                     std::size_t first);

  const SweepSetup& setup_;
  Journal& journal_;
  std::vector<JournalKey> keys_;  // by grid index
};

}  // namespace kvlane::cli
