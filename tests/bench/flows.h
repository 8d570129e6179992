#pragma once
// Flows through one port of 25 Gbit/s: `concurrent` at a time, each that ends is replaced by the
// next, until `flows` have ended.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvlane::bench {

struct FlowsInput {
  std::size_t concurrent = 0;
  std::size_t flows = 0;
  std::vector<std::uint32_t> sizes;  // bytes, a power of two many, used round and round
};

struct FlowsResult {
  double seconds = 0;        // of CPU time
  std::vector<double> ends;  // simulated, in the order of ending, since the start
};

FlowsInput make_flows_input(std::size_t concurrent, std::size_t flows);
FlowsResult flows_here(const FlowsInput& input);
// SimGrid with the model of tests/property/net_simgrid.cpp; only where it is installed.
FlowsResult flows_simgrid(const FlowsInput& input);

}  // namespace kvlane::bench
