#include "calibrate/measure/load_gate.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kvlane::calibrate {
namespace {

constexpr double kBetweenLooks = 2;  // seconds; the kernel updates the average every 5

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace

double load_limit(int threads) { return std::max(0.5, threads / 4.0); }

GateAnswer pass_gate(double limit, bool forced, const GateWorld& world, double patience) {
  for (double waited = 0;;) {
    const std::optional<double> load = world.load();
    if (!load) return {true, 0, "the load average is unknown"};
    if (*load <= limit) return {true, *load, ""};
    if (forced) {
      return {true, *load, "measured under load: " + fixed(*load, 2) + " above " + fixed(limit, 2)};
    }
    if (waited >= patience || world.stopped()) {
      return {false, *load,
              "load average " + fixed(*load, 2) + " above " + fixed(limit, 2) + " after " +
                  fixed(waited, 0) + " s"};
    }
    if (world.progress) world.progress(waited, patience, *load);
    const double next = std::min(kBetweenLooks, patience - waited);
    world.sleep(next);
    waited += next;
  }
}

}  // namespace kvlane::calibrate
