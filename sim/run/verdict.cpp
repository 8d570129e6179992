#include "sim/run/verdict.h"

#include <algorithm>
#include <cmath>

namespace kvlane {
namespace {

constexpr double kTolerance = 0.02;  // two strategies within 2 % count as equal
constexpr double kLimit = 64;        // times today's bandwidth, where the search ends

bool competes(const StrategyResult& strategy) {
  return strategy.policy != "ideal" && strategy.policy != "colocated";
}

}  // namespace

std::optional<double> crossover_scale(const std::function<double(double)>& a,
                                      const std::function<double(double)>& b, double tolerance,
                                      double limit) {
  const auto catches_up = [&](double scale) { return b(scale) <= a(scale) * (1 + tolerance); };
  double low = 1;
  double high = 2;
  while (!catches_up(high)) {
    low = high;
    high *= 2;
    if (high > limit) return std::nullopt;
  }
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (catches_up(middle) ? high : low) = middle;
  }
  return high;
}

std::string verdict_of(const Scenario& scenario, const Result& result,
                       const std::function<double(std::size_t, double)>& second_token) {
  std::optional<std::size_t> best;
  std::optional<std::size_t> full;
  for (std::size_t i = 0; i < result.strategies.size(); ++i) {
    const StrategyResult& s = result.strategies[i];
    if (s.name == "full") full = i;
    if (!competes(s)) continue;
    if (!best || s.second_token_s.mean < result.strategies[*best].second_token_s.mean) best = i;
  }
  if (!best) return "nothing to compare: no strategy moves KV";
  const StrategyResult& winner = result.strategies[*best];
  Bandwidth rate{};
  for (const InstanceGroup& group : scenario.instances) {
    if (group.role == Role::decode) rate = group.nic.rate;
  }
  const double gbps = static_cast<double>(rate.bits_per_sec()) / 1e9;
  std::string text = fmt::format("{} ({})", winner.name, winner.endpoint);
  if (!full) {
    return text + fmt::format(" has the earliest second token at {:.4g} Gbit/s", gbps);
  }
  const double speedup = result.strategies[*full].second_token_s.mean / winner.second_token_s.mean;
  if (*best == *full || speedup <= 1 + kTolerance) {
    return fmt::format(
        "full: at {:.4g} Gbit/s no strategy brings the second token more than {:.0f} % "
        "sooner",
        gbps, kTolerance * 100);
  }
  text += fmt::format(": second token {:.2f}x sooner than full at {:.4g} Gbit/s", speedup, gbps);
  const std::optional<double> scale =
      crossover_scale([&](double x) { return second_token(*best, x); },
                      [&](double x) { return second_token(*full, x); }, kTolerance, kLimit);
  return text + (scale
                     ? fmt::format("; from {:.3g} Gbit/s on, full is as good (within {:.0f} %)",
                                   gbps * *scale, kTolerance * 100)
                     : fmt::format("; full does not catch up below {:.4g} Gbit/s", gbps * kLimit));
}

std::string separation_of(const Result& result) {
  std::vector<const StrategyResult*> order;
  for (const StrategyResult& s : result.strategies) {
    if (competes(s)) order.push_back(&s);
  }
  if (order.size() < 2 || !result.uncertainty) return "";
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second_token_s.mean < b->second_token_s.mean;
  });
  const std::string& best = order[0]->name;
  const std::string& second = order[1]->name;
  for (const RatioInterval& row : result.uncertainty->ratios) {
    const bool same = row.of == best && row.against == second;
    if ((!same && (row.of != second || row.against != best)) || row.metric != "second_token_s")
      continue;
    if (row.low > 1 || row.high < 1) return "";
    const double low = same ? row.low : 1 / row.high;
    const double high = same ? row.high : 1 / row.low;
    return fmt::format(
        "; the error of the models does not separate {} from {} (second token {:.3f}, 90 % "
        "interval "
        "{:.3f} to {:.3f})",
        best, second, same ? row.ratio : 1 / row.ratio, low, high);
  }
  return "";
}

}  // namespace kvlane
