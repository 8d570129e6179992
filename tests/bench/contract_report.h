#pragma once
// Google Benchmark's own output goes to stderr; this reporter keeps the best rate of each benchmark
// "NAME:SIDE", and prints the lines `NAME OURS RIVAL RATIO` of docs/contracts.md to stdout.

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

namespace kvlane::bench {

inline constexpr const char* kOurs = "kvlane";
inline constexpr const char* kRival = "rival";

class ContractReporter final : public benchmark::ConsoleReporter {
 public:
  ContractReporter();
  void ReportRuns(const std::vector<Run>& runs) override;
  // One line a name, in this order; `-` where a side was not measured. False: an error occurred.
  bool print(const std::vector<std::string>& names) const;

 private:
  std::map<std::string, double> best_;
  bool failed_ = false;
};

// A benchmark whose runs say how long they took: `measure` returns seconds for `items`. The best of
// the repetitions counts: whatever disturbs a run makes it slower.
template <class Measure>
void add_benchmark(const std::string& name, const char* side, double items, Measure measure) {
  benchmark::RegisterBenchmark((name + ":" + side).c_str(),
                               [items, measure](benchmark::State& state) {
                                 double seconds = 0;
                                 for (auto _ : state) {
                                   const double took = measure();
                                   seconds += took;
                                   state.SetIterationTime(took);
                                 }
                                 state.counters["rate"] =
                                     items * static_cast<double>(state.iterations()) / seconds;
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1)
      ->Repetitions(7);
}

}  // namespace kvlane::bench
