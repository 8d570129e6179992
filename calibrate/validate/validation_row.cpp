#include "calibrate/validate/validation_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"

namespace kvlane::calibrate {
namespace {

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * n - 1e-9)));
  return values[std::min(rank, values.size()) - 1];
}

double marked_figure(const ValidationRow& row) {
  switch (row.statistic) {
    case Statistic::mape:
      return row.mape;
    case Statistic::median:
      return row.median;
    case Statistic::worst:
      return row.worst;
    case Statistic::median_ratio:
      break;
  }
  return std::abs(row.median_ratio - 1);
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

const char* to_string(Statistic statistic) {
  switch (statistic) {
    case Statistic::mape:
      return "mape";
    case Statistic::median:
      return "median";
    case Statistic::worst:
      return "worst";
    case Statistic::median_ratio:
      break;
  }
  return "median_ratio";
}

void ErrorSample::add(double predicted, double measured) {
  KVLANE_CHECK(predicted > 0 && measured > 0 && std::isfinite(predicted), "{} s against {} s",
               predicted, measured);
  ratios_.push_back(predicted / measured);
}

void ErrorSample::fill(ValidationRow& row) const {
  KVLANE_CHECK(!ratios_.empty(), "{} of {} without a measurement", row.what, row.gpu);
  std::vector<double> errors, inverse;
  double sum = 0;
  for (const double ratio : ratios_) {
    errors.push_back(std::abs(ratio - 1));
    inverse.push_back(1 / ratio);
    sum += errors.back();
  }
  row.n = static_cast<std::int64_t>(ratios_.size());
  row.mape = sum / static_cast<double>(row.n);
  row.median = quantile(errors, 0.5);
  row.p90 = quantile(errors, 0.9);
  row.worst = *std::max_element(errors.begin(), errors.end());
  row.median_ratio = quantile(inverse, 0.5);
  if (row.mark) row.holds = marked_figure(row) <= *row.mark;
}

std::string validation_table(const std::vector<ValidationRow>& rows, int width) {
  const bool all_marks = std::all_of(rows.begin(), rows.end(),
                                     [](const ValidationRow& row) { return row.mark.has_value(); });
  std::vector<std::string> header{"what", "gpu", "source"};
  if (!all_marks) header.emplace_back("shapes");
  for (const char* name : {"n", "median", "MAPE", "p90", "mark"}) header.emplace_back(name);
  TextTable table(header);
  for (std::size_t column = 1; column < (all_marks ? 3U : 4U); ++column) table.align_left(column);
  for (const ValidationRow& row : rows) {
    std::string mark;
    if (row.mark) {
      const bool mape = row.statistic == Statistic::mape;
      const char* verdict = *row.holds ? "≤" : (mape ? "MISSED" : ">");
      mark = fmt::format("{} {}", verdict, percent(*row.mark));
      if (row.statistic == Statistic::median_ratio) {
        mark = fmt::format("ratio {:.2f} {}", row.median_ratio, mark);
      } else if (!mape) {
        mark = fmt::format("{} {} {}", to_string(row.statistic), percent(marked_figure(row)), mark);
      }
    }
    std::vector<std::string> cells{row.what, row.gpu, row.source};
    if (!all_marks) cells.push_back(row.domain);
    cells.insert(cells.end(), {fmt::format("{}", row.n), percent(row.median), percent(row.mape),
                               percent(row.p90), mark});
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

std::string validation_json(const std::vector<ValidationRow>& rows) {
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.calibrate_validate/1").key("rows").begin_array();
  for (const ValidationRow& row : rows) {
    json.begin_object(JsonWriter::Layout::one_line);
    json.member("what", row.what).member("gpu", row.gpu).member("source", row.source);
    json.member("domain", row.domain).member("n", row.n).member("median", row.median);
    json.member("mape", row.mape).member("p90", row.p90).member("worst", row.worst);
    json.member("median_ratio", row.median_ratio);
    json.member("statistic", to_string(row.statistic));
    json.member("mark", row.mark).member("holds", row.holds);
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

bool all_hold(const std::vector<ValidationRow>& rows) {
  return std::none_of(rows.begin(), rows.end(),
                      [](const ValidationRow& row) { return row.holds && !*row.holds; });
}

}  // namespace kvlane::calibrate
