#pragma once
// What the paper reports (public summaries of arXiv 2607.28150, docs/system.md 6), what
// kvlane measures for the same set-up, and where the difference comes from. No constant here or in
// the scenarios is tuned to a claim.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cli/paper_runs.h"

namespace kvlane::cli {

struct Claim {
  std::string text;
  double paper = 0;
  std::string reading;
  std::function<std::optional<double>(const PaperRuns&)> ours;  // none: kvlane cannot measure it
  std::function<std::string(const PaperRuns&)> why;             // from the run's own parts
};

std::vector<Experiment> paper_experiments();
std::vector<Claim> paper_claims();

struct Reading {
  std::string name;
  std::string what;  // which open point, and how it is read otherwise
  Deviation deviation;
};
// One deviation at a time from the defaults of the files.
std::vector<Reading> paper_readings();

}  // namespace kvlane::cli
