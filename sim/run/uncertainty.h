#pragma once
// What the errors of the models make of a result. A draw gives each kernel class of a GPU model and
// each NIC model one factor on its times, the same for every strategy, so that what the strategies
// share cancels in their ratios. Factors are lognormal around 1, with sigma = error sqrt(pi/2): the
// mean of |ln factor| is then the error that was measured on shapes held out of the fit.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/report/metric_list.h"
#include "sim/report/result.h"
#include "sim/run/run.h"

namespace kvlane {

struct DrawFactors {
  FactorsByGpu gpus;                   // 1 where no error is stated
  std::map<std::string, double> nics;  // by name; only those with an error
};

// Of one draw, from streams of random numbers that are named after what they are for: the factor of
// one class does not depend on which others have an error.
DrawFactors draw_factors(const Scenario& scenario, std::uint64_t draw);

// `nominal`, its NICs and what PCIe and the host's memory cost in a draw; kernel times get their
// factor in the cost model. A NIC never gets faster than its line.
GpuSpec perturbed(const GpuSpec& nominal, const KernelFactors& factors);
NicSpec perturbed(const NicSpec& nominal, double factor);

// Runs of one scenario in any draw. For one thread; all objects of a scenario give the same.
class DrawRuns {
 public:
  // Both outlive it. Of the options, `only` and `tables` count.
  DrawRuns(const Scenario& scenario, const RunOptions& options);
  ~DrawRuns();
  // Strategies with their metrics and parts; no verdict, no warnings.
  Result run(std::uint64_t draw);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Mean of each of kMetrics, by strategy.
using DrawMeans = std::vector<std::array<double, kMetrics.size()>>;
DrawMeans means_of(const Result& result);

// Intervals and ratios into the nominal result, what has no stated error into its warnings, and
// into its verdict whether the best two can be told apart.
void add_uncertainty(Result& nominal, const std::vector<DrawMeans>& draws);

}  // namespace kvlane
