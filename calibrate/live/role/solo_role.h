#pragma once
// `--transport modeled`: both roles in one process, real compute, and the simulator's network on
// the wall clock. Bytes move where they are to be verified.

#include <cstdint>
#include <memory>
#include <string>

#include "calibrate/live/role/options.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {

class SoloRole {
 public:
  // Arguments outlive it.
  SoloRole(const Scenario& scenario, const LiveOptions& options);
  ~SoloRole();
  StrategyRun run(const StrategyOptions& strategy, std::uint32_t seed, const TraceFor& trace);
  std::string compute() const;
  std::int64_t verified_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane::live
