#include <ns3/nstime.h>
#include <ns3/simulator.h>

#include <chrono>

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
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < input.pending; ++i) run.schedule();
  ns3::Simulator::Run();
  const auto end = std::chrono::steady_clock::now();
  ns3::Simulator::Destroy();
  return {std::chrono::duration<double>(end - begin).count(), run.hash};
}

}  // namespace kvlane::bench
