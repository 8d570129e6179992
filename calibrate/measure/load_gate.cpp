#include "calibrate/measure/load_gate.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvlane::calibrate {
namespace {

constexpr double kBetweenLooks = 2;  // seconds; the kernel updates the average every 5

}  // namespace

double load_limit(int threads) { return std::max(0.5, threads / 4.0); }

GateAnswer pass_gate(double limit, bool forced, const GateWorld& world) {
  for (double waited = 0;;) {
    const std::optional<double> load = world.load();
    if (!load) return {true, 0, "the load average is unknown"};
    if (*load <= limit) return {true, *load, ""};
    if (forced) {
      return {true, *load, fmt::format("measured under load: {:.2f} above {:.2f}", *load, limit)};
    }
    if (waited >= kLoadWait || world.stopped()) {
      return {false, *load,
              fmt::format("load average {:.2f} above {:.2f} after {:.0f} s", *load, limit, waited)};
    }
    if (world.progress) world.progress(waited, kLoadWait, *load);
    const double next = std::min(kBetweenLooks, kLoadWait - waited);
    world.sleep(next);
    waited += next;
  }
}

}  // namespace kvlane::calibrate
