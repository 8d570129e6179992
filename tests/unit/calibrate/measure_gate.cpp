// The load gate and the timer under clocks that the tests turn.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "calibrate/measure/load_gate.h"
#include "calibrate/measure/timer.h"

using namespace kvlane::calibrate;

namespace {

// A load that falls by `step` at every look.
struct Falling {
  double load, step;
  double slept = 0;
  int looks = 0;
  GateWorld world() {
    GateWorld w;
    w.load = [this] {
      ++looks;
      const double now = load;
      load -= step;
      return std::optional<double>(now);
    };
    w.sleep = [this](double seconds) { slept += seconds; };
    w.stopped = [] { return false; };
    return w;
  }
};

}  // namespace

TEST_CASE("gate: a quiet machine is measured at once, and the samples say nothing") {
  Falling quiet{0.4, 0};
  const GateAnswer answer = pass_gate(0.5, false, quiet.world());
  CHECK(answer.open);
  CHECK(answer.load == 0.4);
  CHECK(answer.problem.empty());
  CHECK(quiet.slept == 0);
}

TEST_CASE("gate: it waits while the load falls") {
  Falling falling{2, 0.25};
  double shown = -1;
  GateWorld world = falling.world();
  world.progress = [&](double waited, double of, double) {
    CHECK(of == kLoadWait);
    CHECK(waited > shown);
    shown = waited;
  };
  const GateAnswer answer = pass_gate(0.5, false, world);
  CHECK(answer.open);
  CHECK(answer.load == 0.5);  // 2 - 6 looks of 0.25: at the limit is not above it
  CHECK(answer.problem.empty());
  CHECK(falling.looks == 7);
  CHECK(falling.slept > 0);
  CHECK(falling.slept < kLoadWait);
}

TEST_CASE("gate: after 120 s of load it stays shut, and says why") {
  Falling busy{3, 0};
  const GateAnswer answer = pass_gate(0.5, false, busy.world());
  CHECK_FALSE(answer.open);
  CHECK(busy.slept == doctest::Approx(kLoadWait));
  CHECK(answer.problem.find("3.00 above 0.50 after 120 s") != std::string::npos);
}

TEST_CASE("gate: forced it opens at once, and every sample will say so") {
  Falling busy{3, 0};
  const GateAnswer answer = pass_gate(0.5, true, busy.world());
  CHECK(answer.open);
  CHECK(busy.slept == 0);
  CHECK(answer.problem == "measured under load: 3.00 above 0.50");
  // Force on a quiet machine is no blemish.
  Falling quiet{0.1, 0};
  CHECK(pass_gate(0.5, true, quiet.world()).problem.empty());
}

TEST_CASE("gate: a stop ends the wait; a machine that tells no load is measured") {
  Falling busy{3, 0};
  GateWorld world = busy.world();
  world.stopped = [&] { return busy.slept >= 10; };
  CHECK_FALSE(pass_gate(0.5, false, world).open);
  CHECK(busy.slept < 15);
  world.load = [] { return std::optional<double>(); };
  const GateAnswer answer = pass_gate(0.5, false, world);
  CHECK(answer.open);
  CHECK(answer.problem == "the load average is unknown");
  CHECK(load_limit(1) == 0.5);
  CHECK(load_limit(2) == 0.5);
  CHECK(load_limit(64) == 16);
}

namespace {

// Calls that take the times of a list, over and over.
struct Stage {
  std::vector<double> times;
  double clock = 0;
  std::size_t calls = 0;
  int flushes = 0;
  TimerWorld world() {
    TimerWorld w;
    w.call = [this] {
      const double t = times[calls % times.size()];
      ++calls;
      clock += t;
      return t;
    };
    w.flush = [this] {
      ++flushes;
      clock += 0.05;
    };
    w.now = [this] { return clock; };
    w.stopped = [] { return false; };
    return w;
  }
};

}  // namespace

TEST_CASE(
    "timer: steady calls need the fewest repetitions, each after a flush, beside the warm-up") {
  Stage stage{{0.010}};
  const Timing timing = time_call(stage.world());
  CHECK(timing.end == Timing::End::measured);
  CHECK(timing.repetitions == TimerOptions{}.fewest);
  CHECK(stage.calls == static_cast<std::size_t>(TimerOptions{}.fewest) + 1);
  CHECK(stage.flushes == TimerOptions{}.fewest);
  CHECK(timing.median == 0.010);
  CHECK(timing.p25 == timing.p75);
}

TEST_CASE("timer: median and quartiles are those of the repetitions, not of the warm-up") {
  // The first is the warm-up; then 1, 2, 3, 4, 5 ms.
  Stage stage{{0.4, 0.001, 0.002, 0.003, 0.004, 0.005}};
  TimerOptions options;
  options.fewest = options.most = 5;
  const Timing timing = time_call(stage.world(), options);
  CHECK(timing.median == doctest::Approx(0.003));
  CHECK(timing.p25 == doctest::Approx(0.002));
  CHECK(timing.p75 == doctest::Approx(0.004));
}

TEST_CASE("timer: unsteady calls are repeated until the patience or the most ends it") {
  Stage patient{{0.001, 0.002}};
  TimerOptions options;
  options.patience = 1000;
  CHECK(time_call(patient.world(), options).repetitions == options.most);
  Stage hasty{{0.001, 0.002}};
  options.patience = 0.12;  // two more flushes of 50 ms, and the third is beyond
  CHECK(time_call(hasty.world(), options).repetitions == options.fewest + 3);
}

TEST_CASE("timer: a call over half a second is not measured; a slow first touch alone is") {
  Stage slow{{0.6}};
  const Timing too_long = time_call(slow.world());
  CHECK(too_long.end == Timing::End::too_long);
  CHECK(slow.calls == 2);  // not one more
  Stage first{{0.6, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}};
  const Timing fine = time_call(first.world());
  CHECK(fine.end == Timing::End::measured);
  CHECK(fine.median == 0.01);
}

TEST_CASE("timer: a stop between two calls leaves nothing half measured") {
  Stage stage{{0.01}};
  TimerWorld world = stage.world();
  world.stopped = [&] { return stage.calls >= 3; };
  CHECK(time_call(world).end == Timing::End::stopped);
  CHECK(stage.calls == 3);
}

TEST_CASE("timer: repetitions that stood in line for a processor do not count") {
  // Every other call is held up by a millisecond, which the system tells.
  Stage stage{{0.001, 0.001, 0.002}};
  double line = 0;
  TimerWorld world = stage.world();
  world.waited = [&] { return line; };
  world.call = [&] {
    const double t = stage.times[stage.calls++ % 3];
    if (t > 0.0015) line += 0.001;
    stage.clock += t;
    return t;
  };
  TimerOptions options;
  options.patience = 1000;
  options.fewest = 4;
  const Timing timing = time_call(world, options);
  CHECK(timing.median == 0.001);
  CHECK(timing.p75 == 0.001);
  CHECK(timing.repetitions == options.fewest);
  CHECK(stage.calls == 1 + 6);  // the warm-up; 1 ms, 2 ms, 1, 1, 2, 1

  // Held up every time, by 10 or by 1 ms: the least disturbed ones stand.
  Stage busy{{0.011, 0.002}};
  world = busy.world();
  world.waited = [&] { return line; };
  world.call = [&] {
    const double t = busy.times[busy.calls++ % 2];
    line += t - 0.001;
    busy.clock += t;
    return t;
  };
  const Timing least = time_call(world, options);
  CHECK(least.median == 0.002);
  CHECK(least.repetitions == options.fewest);
}
