#pragma once
// Two results side by side: each metric of the strategies that both hold, and what differs in what
// they were made from.

#include <optional>
#include <string>
#include <vector>

#include "sim/report/result.h"
#include "sim/report/text_table.h"

namespace kvlane {

struct CompareRow {
  std::string strategy;
  std::string metric;  // ttst_s is the mean, ttst_s.p99 a percentile, bytes.LANE, ...
  double a = 0, b = 0;
  std::optional<double> ratio;  // b / a; 1 when both are 0, none when only a is
  // Of means, where both results have them. Not paired: the errors of A and B are not the same.
  std::optional<Interval> a_interval = {}, b_interval = {};
};

struct Comparison {
  std::string a, b;  // names of the two, for headings
  std::vector<CompareRow> rows;
  std::vector<std::string> differences;  // inputs whose content differs, strategies in one only
  std::vector<std::string> warnings;     // what makes the numbers hard to compare
};

Comparison compare_results(const std::string& name_a, const Result& a, const std::string& name_b,
                           const Result& b);

std::string comparison_to_table(const Comparison& comparison, int width = kTerminalWidth);
// kvlane.compare/1.
std::string comparison_to_json(const Comparison& comparison);
std::string comparison_to_csv(const Comparison& comparison);

}  // namespace kvlane
