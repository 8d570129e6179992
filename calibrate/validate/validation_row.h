#pragma once
// One line of `kvlane calibrate validate` (docs/contracts.md): how far predictions are from
// measurements that nothing was fitted to.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Which of a row's figures its mark is about.
enum class Statistic : std::uint8_t { mape, median, worst, median_ratio };
const char* to_string(Statistic statistic);

struct ValidationRow {
  std::string what;    // gemm, prefill, prefix, decode, mixed, nic, collective, e2e_static, ...
  std::string gpu;     // machine, or the curve of a link
  std::string source;  // data set and variant of the measurements
  std::string domain;  // "mark", or which part of the shapes
  std::int64_t n = 0;
  double median = 0, mape = 0, p90 = 0, worst = 0;  // |predicted / measured - 1|
  double median_ratio = 1;                          // measured / predicted
  Statistic statistic = Statistic::mape;
  std::optional<double> mark;
  std::optional<bool> holds;  // with a mark only
};

// Gets every measurement that a row counts, with its prediction in seconds: for figures.
using PointSink = std::function<void(const std::string& what, const std::string& domain,
                                     const Sample& sample, double predicted)>;

// Collects predictions of one row.
class ErrorSample {
 public:
  void add(double predicted, double measured);
  bool empty() const { return ratios_.empty(); }
  // Nearest-rank quantiles. Fills n and the figures of `row`; a mark there is judged.
  void fill(ValidationRow& row) const;

 private:
  std::vector<double> ratios_;  // predicted / measured
};

// A text table of at most `width` columns, and contracts.md's JSON.
std::string validation_table(const std::vector<ValidationRow>& rows, int width);
std::string validation_json(const std::vector<ValidationRow>& rows);
// True unless a mark does not hold.
bool all_hold(const std::vector<ValidationRow>& rows);

}  // namespace kvlane::calibrate
