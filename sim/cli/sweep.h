#pragma once
// Runs a study: every point of its grid and the crossover questions, on several threads, through
// the journal. What comes out depends on the study alone, not on the number of threads or on kills.

#include <functional>
#include <string>
#include <vector>

#include "sim/cli/journal.h"
#include "sim/scenario/scenario.h"
#include "sim/study/study.h"

namespace kvlane::cli {

struct SweepSetup {
  const Study& study;
  std::vector<std::string> set;  // --set for every point, before the grid's own
  std::vector<std::string> preset_dirs;
  std::string program;  // version and commit: another program's runs are not taken over
  int jobs = 1;
  int shard = 0, shards = 1;  // this process runs the points with index % shards == shard
};

struct CrossoverRow {
  std::vector<std::string> point;  // values of the axes; empty at the one that is swept
  std::string of, against, metric, over;
  std::string better_below, better_above;  // a strategy, or "neither"
  std::string interpolated, low, high;     // empty where nothing changes
  std::string grid_low, grid_high;
  int runs = 0;
};

class Sweep {
 public:
  Sweep(const SweepSetup& setup, Journal& journal);

  // Runs what the journal does not have yet; `progress(done, of)` from any thread.
  using ProgressFn = std::function<void(std::size_t, std::size_t)>;
  void run_grid(const ProgressFn& progress);
  std::vector<CrossoverRow> find_crossovers(const ProgressFn& progress);

  // After run_grid without shards: the rows of a point, each a CSV line without the axis values.
  std::string rows(std::size_t index) const { return journal_.text(keys_[index]); }
  static std::vector<std::string> columns(const Study& study);

 private:
  Scenario read(const GridPoint& point) const;
  // Runs the point unless the journal has it; the key under which its rows are.
  JournalKey run(const GridPoint& point, const std::vector<PlacedText>& strategies);
  double ratio(const std::string& rows, const CrossoverQuestion& question) const;
  std::vector<CrossoverRow> answer(const CrossoverQuestion& question, std::size_t axis,
                                   std::size_t first);

  const SweepSetup& setup_;
  Journal& journal_;
  std::vector<JournalKey> keys_;  // by grid index
};

}  // namespace kvlane::cli
