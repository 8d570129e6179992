#include "tests/bench/contract_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace kvlane::bench {

ContractReporter::ContractReporter() : ConsoleReporter(OO_None) {
  SetOutputStream(&std::cerr);
  SetErrorStream(&std::cerr);
}

void ContractReporter::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    failed_ = failed_ || run.error_occurred;
    const auto rate = run.counters.find("rate");
    if (run.run_type != Run::RT_Iteration || rate == run.counters.end()) continue;
    double& best = best_[run.run_name.function_name];
    best = std::max(best, rate->second.value);
  }
  ConsoleReporter::ReportRuns(runs);
}

bool ContractReporter::print(const std::vector<std::string>& names) const {
  bool complete = !failed_;
  for (const std::string& name : names) {
    const auto ours = best_.find(name + ":" + kOurs);
    const auto rival = best_.find(name + ":" + kRival);
    if (ours == best_.end()) {
      complete = false;
      continue;
    }
    if (rival == best_.end()) {
      fmt::print("{} {:.0f} - -\n", name, ours->second);
    } else {
      fmt::print("{} {:.0f} {:.0f} {:.2f}\n", name, ours->second, rival->second,
                 ours->second / rival->second);
    }
  }
  std::fflush(stdout);
  return complete;
}

}  // namespace kvlane::bench
