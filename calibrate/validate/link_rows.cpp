#include "calibrate/validate/link_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "calibrate/fit/solver.h"
#include "calibrate/validate/marks.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kLeastSizes = 4;  // twice the constants, in the half that is fitted

struct Link {
  std::string what;
  const Sample* first = nullptr;
  std::vector<const Sample*> fitted, held;
};

// Every second size is held out: a curve has too few for a hash to halve.
std::map<std::string, Link> links_of(const std::vector<Sample>& samples) {
  std::map<std::string, std::vector<const Sample*>> curves;
  for (const Sample& sample : samples) {
    if (!sample.set_aside.empty()) continue;
    if (sample.kernel == "nic_message" || sample.kernel == "kv_transfer") {
      curves[sample.kernel + '/' + sample.machine + '/' + sample.variant].push_back(&sample);
    }
  }
  std::map<std::string, Link> links;
  for (auto& [name, curve] : curves) {
    std::sort(curve.begin(), curve.end(), [](const Sample* a, const Sample* b) {
      return dimension(*a, "bytes") < dimension(*b, "bytes");
    });
    Link link;
    link.what = curve.front()->kernel == "nic_message" ? "nic" : "kv_transfer";
    link.first = curve.front();
    for (std::size_t i = 0; i < curve.size(); ++i) {
      (i % 2 == 0 ? link.fitted : link.held).push_back(curve[i]);
    }
    if (link.fitted.size() >= kLeastSizes && !link.held.empty()) links.emplace(name, link);
  }
  return links;
}

double seconds(const Link& link, const std::vector<double>& constants, const Sample& sample) {
  const double wire = static_cast<double>(dimension(sample, "bytes")) / constants[1];
  return link.what == "nic" ? std::max(constants[0], wire) : constants[0] + wire;
}

std::vector<double> fit(const Link& link) {
  const Sample& largest = *link.fitted.back();
  const double rate = static_cast<double>(dimension(largest, "bytes")) / largest.seconds;
  const std::vector<Unknown> unknowns = {
      {"fixed", 1e-10, 1, {link.fitted.front()->seconds}},
      {"rate", rate / 100, rate * 100, {rate}},
  };
  return solve(unknowns, link.fitted.size(),
               [&](const std::vector<double>& at, std::vector<double>& out) {
                 for (std::size_t i = 0; i < out.size(); ++i) {
                   const Sample& sample = *link.fitted[i];
                   out[i] = std::log(seconds(link, at, sample) / sample.seconds);
                 }
               })
      .values;
}

}  // namespace

std::vector<ValidationRow> link_rows(const std::vector<Sample>& samples, const PointSink& points) {
  std::vector<ValidationRow> rows;
  ErrorSample medians;
  for (const auto& [name, link] : links_of(samples)) {
    const std::vector<double> constants = fit(link);
    ErrorSample errors;
    for (const Sample* sample : link.held) {
      const double predicted = seconds(link, constants, *sample);
      errors.add(predicted, sample->seconds);
      if (points) points(link.what, "held out", *sample, predicted);
    }
    ValidationRow row;
    row.what = link.what;
    row.gpu = link.first->machine;
    row.source = link.first->variant;
    row.domain = "held-out sizes";
    if (link.what == "kv_transfer" && dimension(*link.first, "ports") == 8) {
      row.domain = "mark";
      const auto mark = mark_of(row.what, row.gpu, row.source);
      row.mark = mark->limit;
      row.statistic = mark->statistic;
    }
    errors.fill(row);
    if (row.what == "nic") medians.add(1 + row.median, 1);
    rows.push_back(row);
  }
  if (!medians.empty()) {
    ValidationRow all;
    all.what = "nic";
    all.gpu = "all";
    all.source = "largest median of a curve";
    all.domain = "mark";
    const auto mark = mark_of("nic", "", "");
    all.mark = mark->limit;
    all.statistic = Statistic::worst;
    medians.fill(all);
    rows.insert(rows.begin(), all);
  }
  return rows;
}

}  // namespace kvlane::calibrate
