#pragma once
// No measurement on a busy machine: above a limit of the load average the gate waits, since a build
// may just have ended, and then refuses unless it is forced.

#include <functional>
#include <optional>
#include <string>

namespace kvlane::calibrate {

// Of the load average over a minute: a quarter of the threads, at least 0.5.
double load_limit(int threads);

inline constexpr double kLoadWait = 120;  // seconds

struct GateWorld {
  std::function<std::optional<double>()> load;
  std::function<void(double seconds)> sleep;
  std::function<bool()> stopped;  // by the user: the wait ends
  // (seconds waited, of at most, load) while it waits; may be empty.
  std::function<void(double, double, double)> progress;
};

struct GateAnswer {
  bool open = false;
  double load = 0;      // when it was answered
  std::string problem;  // empty, or what every sample has to say about the load
};

// Throws nothing; a machine that does not tell its load is measured, and the samples say so.
// `patience`: seconds that it waits at most.
GateAnswer pass_gate(double limit, bool forced, const GateWorld& world,
                     double patience = kLoadWait);

}  // namespace kvlane::calibrate
