#include "sim/select/row_count.h"

#include <algorithm>
#include <cmath>

#include "sim/select/gauss.h"

namespace kvlane::select {
namespace {

// Ages 0 .. limit in bins: single ages first, then bins of 12 % of (a0 + age).
class AgeBins {
 public:
  AgeBins(const LayerSelection& layer, std::int64_t limit) {
    std::int64_t age = 0;
    while (age <= limit) {
      const auto width =
          age < 16
              ? 1
              : std::max<std::int64_t>(
                    1, static_cast<std::int64_t>(0.12 * (layer.a0 + static_cast<double>(age))));
      const std::int64_t last = std::min(limit, age + width - 1);
      const double middle = 0.5 * static_cast<double>(age + last);
      bins_.push_back({recency(layer, middle), static_cast<double>(last - age + 1)});
      age = last + 1;
    }
  }
  double expected(double theta) const {
    const NormalTable& normal = NormalTable::instance();
    double sum = 0;
    for (const Bin& bin : bins_) sum += bin.rows * normal.tail(theta + bin.recency);
    return sum;
  }
  // Bisection; expected() falls with theta.
  double solve(double rows) const {
    double low = -bins_.back().recency - 8, high = 8;
    for (int i = 0; i < 24; ++i) {
      const double middle = 0.5 * (low + high);
      (expected(middle) > rows ? low : high) = middle;
    }
    return 0.5 * (low + high);
  }

 private:
  struct Bin {
    double recency, rows;
  };
  std::vector<Bin> bins_;
};

// theta as a function of the count at one query position: intervals of theta (16, or 2 where the
// counts are alike), linear in ln (its curvature leaves below 1 % of the count).
class ThresholdTable {
 public:
  ThresholdTable(const LayerSelection& layer, std::int64_t position, std::int64_t fewest,
                 std::int64_t most) {
    const AgeBins ages(layer, std::max<std::int64_t>(0, position - kSinks));
    const auto rows = [](std::int64_t k) { return std::max(0.5, static_cast<double>(k - kSinks)); };
    const double first = ages.solve(rows(most));
    const double last = fewest == most ? first : ages.solve(rows(fewest));
    const int nodes = fewest == most ? 1 : most - fewest <= fewest / 4 ? 3 : 17;
    for (int i = 0; i < nodes; ++i) {
      const double theta = nodes == 1 ? first : first + (last - first) * i / (nodes - 1);
      theta_.push_back(theta);
      log_rows_.push_back(settle(std::log(std::max(1e-3, ages.expected(theta)))));
    }
  }
  double theta(std::int64_t count) const {
    const double want = settle(std::log(std::max(0.5, static_cast<double>(count - kSinks))));
    std::size_t i = 0;
    while (i + 1 < theta_.size() && log_rows_[i + 1] > want) ++i;
    if (i + 1 >= theta_.size()) return theta_.back();
    const double fall = log_rows_[i] - log_rows_[i + 1];
    const double place = fall > 0 ? std::clamp((log_rows_[i] - want) / fall, 0.0, 1.0) : 0;
    return theta_[i] + (theta_[i + 1] - theta_[i]) * place;
  }

 private:
  std::vector<double> theta_, log_rows_;
};

double normal_draw(Rng& rng) { return NormalTable::instance().of_bin(rng() >> 52U); }

}  // namespace

double recency(const LayerSelection& layer, double age) {
  return settle(layer.g * std::log1p(std::max(0.0, age) / layer.a0));
}

std::vector<std::int64_t> row_counts(const LayerSelection& layer, const CountRule& rule,
                                     std::int64_t prompt_tokens, std::int64_t steps, Rng forward,
                                     Rng backward) {
  const auto total = static_cast<std::size_t>(steps + kVirtualSteps);
  std::vector<std::int64_t> counts(total);
  const auto at_most = [&](std::size_t i) {
    const std::int64_t length = prompt_tokens + static_cast<std::int64_t>(i) - kVirtualSteps + 1;
    return std::clamp<std::int64_t>(
        static_cast<std::int64_t>(settle(rule.cap * static_cast<double>(length))), 1,
        std::max<std::int64_t>(1, length));
  };
  if (rule.count == SelectCount::cap) {
    for (std::size_t i = 0; i < total; ++i) counts[i] = at_most(i);
    return counts;
  }
  const double between = layer.sigma_between, within = layer.sigma_n;
  const double text = settle(std::exp(between * normal_draw(forward) - 0.5 * between * between));
  const double base = std::min(layer.n * text, rule.cap) * static_cast<double>(prompt_tokens);
  const double rho = layer.rho_n, fresh = std::sqrt(std::max(0.0, 1 - rho * rho));
  const auto set = [&](std::size_t i, double e) {
    const double rows = settle(base * settle(std::exp(within * e - 0.5 * within * within)));
    counts[i] =
        std::min(at_most(i), std::max<std::int64_t>(kSinks + 1, static_cast<std::int64_t>(rows)));
  };
  const double start = normal_draw(forward);
  double e = start;
  for (std::size_t i = kVirtualSteps; i < total; ++i) {
    set(i, e);
    e = rho * e + fresh * normal_draw(forward);
  }
  e = start;
  for (std::size_t i = kVirtualSteps; i-- > 0;) {
    e = rho * e + fresh * normal_draw(backward);
    set(i, e);
  }
  return counts;
}

std::vector<double> thresholds(const LayerSelection& layer, std::int64_t prompt_tokens,
                               const std::vector<std::int64_t>& counts) {
  // The ages grow with the step: one table every 96 steps, linear between.
  constexpr std::size_t kStride = 96;
  std::vector<double> theta(counts.size());
  const auto position = [&](std::size_t i) {
    return std::max<std::int64_t>(0, prompt_tokens + static_cast<std::int64_t>(i) - kVirtualSteps);
  };
  for (std::size_t begin = 0; begin < counts.size(); begin += kStride) {
    const std::size_t end = std::min(begin + kStride, counts.size());
    const auto [fewest, most] =
        std::minmax_element(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                            counts.begin() + static_cast<std::ptrdiff_t>(end));
    const ThresholdTable left(layer, position(begin), *fewest, *most);
    const ThresholdTable right(layer, position(end - 1), *fewest, *most);
    for (std::size_t i = begin; i < end; ++i) {
      const double share =
          end - begin > 1 ? static_cast<double>(i - begin) / static_cast<double>(end - begin - 1)
                          : 0;
      const double a = left.theta(counts[i]), b = right.theta(counts[i]);
      theta[i] = settle(a + (b - a) * share);
    }
  }
  return theta;
}

}  // namespace kvlane::select
