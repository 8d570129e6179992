#include "calibrate/measure/timer.h"

#include <algorithm>
#include <vector>

namespace kvlane::calibrate {
namespace {

// Between order statistics.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

struct Repetition {
  double seconds = 0;
  double waiting = 0;  // share of it
};

// Of the undisturbed repetitions; of the least disturbed ones where those are too few.
Timing summary(std::vector<Repetition> all, const TimerOptions& options) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Repetition& a, const Repetition& b) { return a.waiting < b.waiting; });
  std::vector<double> times;
  for (const Repetition& one : all) {
    const bool enough = times.size() >= static_cast<std::size_t>(options.fewest);
    if (one.waiting > options.waiting && enough) break;
    times.push_back(one.seconds);
  }
  std::sort(times.begin(), times.end());
  return {Timing::End::measured, quantile(times, 0.5), quantile(times, 0.25), quantile(times, 0.75),
          static_cast<int>(times.size())};
}

}  // namespace

Timing time_call(const TimerWorld& world, const TimerOptions& options) {
  // The first call also touches its memory for the first time: only a second one says that it is
  // too long.
  double warm_up = world.call();
  if (warm_up > options.too_long && !world.stopped()) {
    world.flush();
    warm_up = world.call();
    if (warm_up > options.too_long) return {Timing::End::too_long, warm_up, warm_up, warm_up, 1};
  }
  std::vector<Repetition> all;
  double since = 0;
  int undisturbed = 0;
  for (;;) {
    if (world.stopped()) return {Timing::End::stopped, 0, 0, 0, 0};
    world.flush();
    const double before = world.waited ? world.waited() : 0;
    const double seconds = world.call();
    const double waited = world.waited ? world.waited() - before : 0;
    all.push_back({seconds, waited / seconds});
    undisturbed += all.back().waiting <= options.waiting ? 1 : 0;
    const auto count = static_cast<int>(all.size());
    if (count < options.fewest) continue;
    if (count == options.fewest) since = world.now();
    const Timing timing = summary(all, options);
    const bool close =
        undisturbed >= options.fewest && timing.p75 - timing.p25 <= options.close * timing.median;
    if (close || count >= options.most || world.now() - since >= options.patience) return timing;
  }
}

}  // namespace kvlane::calibrate
