#include "sim/cli/paper_runs.h"

#include <mutex>

#include "sim/base/check.h"
#include "sim/cli/parallel.h"
#include "sim/run/run.h"
#include "sim/scenario/scenario_file.h"

namespace kvlane::cli {

PaperRuns::PaperRuns(const std::vector<Experiment>& experiments, const std::string& preset_dir,
                     int jobs, const Deviation& deviation,
                     const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<Result> results(experiments.size());
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(experiments.size(), jobs, [&](std::size_t i) {
    const Experiment& experiment = experiments[i];
    Scenario scenario = read_scenario(preset_dir + "/paper/" + experiment.file + ".yaml",
                                      experiment.overrides, {preset_dir});
    if (deviation) deviation(scenario);
    RunOptions options;
    options.only = experiment.only;
    options.verdict = false;
    results[i] = run_scenario(scenario, options);
    const std::lock_guard<std::mutex> lock(mutex);
    progress(++done, experiments.size());
  });
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    results_.emplace(experiments[i].name, std::move(results[i]));
  }
}

const Result& PaperRuns::result(const std::string& experiment) const {
  const auto found = results_.find(experiment);
  KVLANE_CHECK(found != results_.end(), "no experiment {}", experiment);
  return found->second;
}

const StrategyResult& PaperRuns::strategy(const std::string& experiment,
                                          const std::string& name) const {
  for (const StrategyResult& s : result(experiment).strategies) {
    if (s.name == name) return s;
  }
  KVLANE_CHECK(false, "no strategy {} in {}", name, experiment);
  return result(experiment).strategies.front();
}

}  // namespace kvlane::cli
