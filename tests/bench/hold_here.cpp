
#include "sim/des/virtual_loop.h"
#include "tests/bench/cpu_clock.h"
#include "tests/bench/hold.h"

namespace kvlane::bench {
namespace {

struct Run {
  VirtualLoop loop;
  const std::uint32_t* delays = nullptr;
  std::uint64_t mask = 0;
  std::uint64_t scheduled = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;

  void schedule() {
    const std::uint64_t n = scheduled++;
    loop.schedule_after(Duration(delays[n & mask]), {&Run::fire, this, n});
  }
  static void fire(void* self, std::uint64_t n) {
    Run& run = *static_cast<Run*>(self);
    const auto now = static_cast<std::uint64_t>(run.loop.now().time_since_epoch().count());
    run.hash = mix(mix(run.hash, now), n);
    if (run.scheduled < run.events) run.schedule();
  }
};

}  // namespace

HoldResult hold_here(const HoldInput& input) {
  Run run;
  run.delays = input.delays.data();
  run.mask = input.delays.size() - 1;
  run.events = input.events;
  const double begin = cpu_seconds();
  for (std::size_t i = 0; i < input.pending; ++i) run.schedule();
  run.loop.run();
  const double end = cpu_seconds();
  return {end - begin, run.hash};
}

}  // namespace kvlane::bench
