#pragma once
// Collects predictions and measurements into rows, one a kind, GPU, source and domain.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/validate/validation_row.h"

namespace kvlane::calibrate {

// The domain of a row that a mark is about: all that the mark names, in one row.
inline constexpr const char* kMarkDomain = "mark";

class RowCollector {
 public:
  // In order of kind, GPU, source and domain; `mark_first`: the mark's domain before the others.
  explicit RowCollector(bool mark_first) : mark_first_(mark_first) {}

  void add(const std::string& what, const std::string& gpu, const std::string& source,
           const std::string& domain, double predicted, double measured);
  // Where no mark is about the row of the mark's domain (marks.h), its domain is called
  // `otherwise`.
  std::vector<ValidationRow> take(const std::string& otherwise);

 private:
  bool mark_first_;
  using Key = std::tuple<std::string, std::string, std::string, bool, std::string>;
  std::map<Key, ErrorSample> errors_;
};

}  // namespace kvlane::calibrate
