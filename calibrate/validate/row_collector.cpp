#include "calibrate/validate/row_collector.h"

#include "calibrate/validate/marks.h"

namespace kvlane::calibrate {

void RowCollector::add(const std::string& what, const std::string& gpu, const std::string& source,
                       const std::string& domain, double predicted, double measured) {
  const bool later = mark_first_ && domain != kMarkDomain;
  errors_[{what, gpu, source, later, domain}].add(predicted, measured);
}

std::vector<ValidationRow> RowCollector::take(const std::string& otherwise) {
  std::vector<ValidationRow> rows;
  for (const auto& [key, errors] : errors_) {
    ValidationRow row;
    row.what = std::get<0>(key);
    row.gpu = std::get<1>(key);
    row.source = std::get<2>(key);
    row.domain = std::get<4>(key);
    if (row.domain == kMarkDomain) {
      if (const auto mark = mark_of(row.what, row.gpu, row.source)) {
        row.mark = mark->limit;
        row.statistic = mark->statistic;
      } else {
        row.domain = otherwise;
      }
    }
    errors.fill(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace kvlane::calibrate
