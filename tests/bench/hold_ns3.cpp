#include <ns3/nstime.h>
#include <ns3/simulator.h>

#include "tests/bench/cpu_clock.h"
#include "tests/bench/hold.h"

namespace kvlane::bench {
namespace {

struct Run {
  const std::uint32_t* delays = nullptr;
  std::uint64_t mask = 0;
  std::uint64_t scheduled = 0;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;

  void schedule() {
    const std::uint64_t n = scheduled++;
    ns3::Simulator::Schedule(ns3::TimeStep(delays[n & mask]), &Run::fire, this, n);
  }
  static void fire(Run* run, std::uint64_t n) {
    const auto now = static_cast<std::uint64_t>(ns3::Simulator::Now().GetTimeStep());
    run->hash = mix(mix(run->hash, now), n);
    if (run->scheduled < run->events) run->schedule();
  }
};

}  // namespace

HoldResult hold_ns3(const HoldInput& input) {
  Run run;
  run.delays = input.delays.data();
  run.mask = input.delays.size() - 1;
  run.events = input.events;
  ns3::Simulator::Now();  // makes the simulator, which is not timed
  const double begin = cpu_seconds();
  for (std::size_t i = 0; i < input.pending; ++i) run.schedule();
  ns3::Simulator::Run();
  const double end = cpu_seconds();
  ns3::Simulator::Destroy();
  return {end - begin, run.hash};
}

}  // namespace kvlane::bench
