#include <fmt/format.h>

#include "sim/base/rng.h"
#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"
#include "tests/bench/cpu_clock.h"
#include "tests/bench/flows.h"

namespace kvlane::bench {
namespace {

struct Run {
  VirtualLoop loop;
  FluidNetwork network{loop};
  LinkId port = network.add_link("port", Bandwidth::gbit_per_sec(25));
  const FlowsInput* input = nullptr;
  std::size_t started = 0;
  std::vector<double> ends;

  void start() {
    const std::uint32_t bytes = input->sizes[started++ & (input->sizes.size() - 1)];
    network.start({{&port, 1}, Bytes(bytes)}, {&Run::ended, this, 0});
  }
  static void ended(void* self, std::uint64_t) {
    Run& run = *static_cast<Run*>(self);
    run.ends.push_back(to_seconds(run.loop.now()));
    if (run.started < run.input->flows) run.start();
  }
};

}  // namespace

FlowsInput make_flows_input(std::size_t concurrent, std::size_t flows) {
  FlowsInput input;
  input.concurrent = concurrent;
  input.flows = flows;
  Rng rng(1, fmt::format("flows/{}", concurrent));
  input.sizes.resize(1U << 14U);
  for (std::uint32_t& size : input.sizes) {
    size = static_cast<std::uint32_t>(1'000'000 + rng.below(7'000'000));
  }
  return input;
}

FlowsResult flows_here(const FlowsInput& input) {
  Run run;
  run.input = &input;
  run.ends.reserve(input.flows);
  const double begin = cpu_seconds();
  for (std::size_t i = 0; i < input.concurrent; ++i) run.start();
  run.loop.run();
  const double end = cpu_seconds();
  return {end - begin, std::move(run.ends)};
}

}  // namespace kvlane::bench
