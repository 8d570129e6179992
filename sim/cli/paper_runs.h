#pragma once
// The runs behind the paper's claims: scenarios of scenarios/paper with overrides, each run once,
// on all cores, and looked up by name.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/report/result.h"
#include "sim/scenario/scenario.h"

namespace kvlane::cli {

struct Experiment {
  std::string name;  // how claims refer to it
  std::string file;  // below scenarios/paper, without .yaml
  std::vector<std::string> overrides;
  std::vector<std::string> only;  // strategies, all when empty
};

// A change to every experiment, after reading: one deviation from the stated defaults.
using Deviation = std::function<void(Scenario&)>;

class PaperRuns {
 public:
  // Runs all; `progress(done, of)` comes from one thread at a time.
  PaperRuns(const std::vector<Experiment>& experiments, const std::string& preset_dir, int jobs,
            const Deviation& deviation,
            const std::function<void(std::size_t, std::size_t)>& progress);

  const Result& result(const std::string& experiment) const;
  const StrategyResult& strategy(const std::string& experiment, const std::string& name) const;

 private:
  std::map<std::string, Result> results_;
};

}  // namespace kvlane::cli
