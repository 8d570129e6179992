#pragma once
// The time of a call on a cold cache: warm-up, then repetitions with the cache flushed before each,
// until their quartiles are close or the patience ends. Repetitions in which the program had to
// wait for a processor that another had do not count, unless there are no others.

#include <cstdint>
#include <functional>

namespace kvlane::calibrate {

struct TimerOptions {
  int fewest = 5, most = 100;
  double close = 0.03;    // (p75 - p25) / median at which the fewest suffice
  double patience = 0.2;  // seconds for one shape beyond the fewest, flushes included
  double waiting = 0.02;  // share of a repetition's time from which it is disturbed
  double too_long = 0.5;  // a call above this is not measured
};

struct TimerWorld {
  std::function<double()> call;  // runs once; seconds that it took
  std::function<void()> flush;   // what a call left in the caches is gone
  std::function<double()> now;   // seconds, of any origin
  // Seconds that the program's threads have waited for a processor so far; may be empty.
  std::function<double()> waited;
  std::function<bool()> stopped;
};

struct Timing {
  enum class End : std::uint8_t { measured, too_long, stopped };
  End end = End::measured;
  double median = 0, p25 = 0, p75 = 0;  // seconds; of too_long: the one call
  int repetitions = 0;
};

Timing time_call(const TimerWorld& world, const TimerOptions& options = {});

}  // namespace kvlane::calibrate
