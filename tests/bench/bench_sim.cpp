// The simulator's benchmarks: events and flows a second, beside ns-3 and SimGrid in the same run.
// Each pair must first agree on what happens and when.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/contract_report.h"
#include "tests/bench/flows.h"
#include "tests/bench/hold.h"

namespace kvlane::bench {
namespace {

#ifdef KVLANE_HAVE_NS3
constexpr bool kHaveNs3 = true;
HoldResult rival_hold(const HoldInput& input) { return hold_ns3(input); }
#else
constexpr bool kHaveNs3 = false;
HoldResult rival_hold(const HoldInput&) { return {}; }
#endif
#ifdef KVLANE_HAVE_SIMGRID
constexpr bool kHaveSimgrid = true;
FlowsResult rival_flows(const FlowsInput& input) { return flows_simgrid(input); }
#else
constexpr bool kHaveSimgrid = false;
FlowsResult rival_flows(const FlowsInput&) { return {}; }
#endif

bool agree(const HoldInput& input) {
  const std::uint64_t ours = hold_here(input).order_hash;
  if (hold_here(input).order_hash != ours) return false;
  return !kHaveNs3 || rival_hold(input).order_hash == ours;
}

bool agree(const FlowsInput& input) {
  const std::vector<double> ours = flows_here(input).ends;
  if (ours.size() != input.flows) return false;
  if (!kHaveSimgrid) return true;
  const std::vector<double> theirs = rival_flows(input).ends;
  if (theirs.size() != ours.size()) return false;
  // Both in the order of ending. SimGrid rounds to a nanosecond, so allow 0.1 % of a flow's time.
  const double allowed =
      1e-3 * ours.back() * static_cast<double>(input.concurrent) / static_cast<double>(input.flows);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!(std::fabs(ours[i] - theirs[i]) <= allowed)) {
      fmt::print(stderr, "flow {} of {} at a time: {} s here, {} s in SimGrid\n", i,
                 input.concurrent, ours[i], theirs[i]);
      return false;
    }
  }
  return true;
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!kHaveNs3) fmt::print(stderr, "ns-3 (libns3-dev) is missing: hold/* has no rival\n");
  if (!kHaveSimgrid)
    fmt::print(stderr, "SimGrid (libsimgrid-dev) is missing: flows/* has no rival\n");
  std::vector<std::string> names;
  for (const std::size_t pending : {16U, 1000U, 100000U}) {
    const std::string name = fmt::format("hold/{}", pending);
    names.push_back(name);
    if (!agree(make_hold_input(pending, 10 * pending + 100000))) {
      fmt::print(stderr, "{}: the order of events is wrong; not timed\n", name);
      return 1;
    }
    const HoldInput input = make_hold_input(pending, 5 * pending + 500'000);
    const auto items = static_cast<double>(input.events);
    add_benchmark(name, kOurs, items, [input] { return hold_here(input).seconds; });
    if (kHaveNs3) add_benchmark(name, kRival, items, [input] { return rival_hold(input).seconds; });
  }
  for (const std::size_t concurrent : {6U, 64U, 512U}) {
    const std::string name = fmt::format("flows/{}", concurrent);
    names.push_back(name);
    if (!agree(make_flows_input(concurrent, 4 * concurrent + 1000))) {
      fmt::print(stderr, "{}: the times of flows are wrong; not timed\n", name);
      return 1;
    }
    const FlowsInput ours = make_flows_input(concurrent, 200'000);
    const FlowsInput theirs = make_flows_input(concurrent, 4 * concurrent + 5'000);
    add_benchmark(name, kOurs, static_cast<double>(ours.flows),
                  [ours] { return flows_here(ours).seconds; });
    if (kHaveSimgrid) {
      add_benchmark(name, kRival, static_cast<double>(theirs.flows),
                    [theirs] { return rival_flows(theirs).seconds; });
    }
  }
  ContractReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.print(names) ? 0 : 1;
}

}  // namespace
}  // namespace kvlane::bench

int main(int argc, char** argv) { return kvlane::bench::run(argc, argv); }
