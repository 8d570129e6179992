#pragma once
// `--role decode --peer ADDR...`: connects to the prefill roles, in the scenario's order, starts
// one run after the other and makes its StrategyRun of the records of all.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/role/options.h"
#include "calibrate/live/role/prefill_role.h"
#include "calibrate/live/socket/address.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {

struct PeerPath {
  std::string address;
  std::string transport;  // what was chosen
  double clock_error_us = 0, round_trip_us = 0;
};

class DecodeRole {
 public:
  // Connects; throws PeerError, RunError, std::system_error. Arguments outlive it.
  DecodeRole(const Scenario& scenario, const LiveOptions& options,
             const std::vector<SocketAddress>& peers, const Say& say);
  ~DecodeRole();

  // One strategy and seed. `trace` names GPUs and endpoints and gives the sink that gets every
  // record.
  StrategyRun run(const StrategyOptions& strategy, std::uint32_t seed, const TraceFor& trace);
  // A sign of life to the peers, for whoever does something else for long.
  void breathe() const;
  // Goodbye to the peers.
  void close();

  std::vector<PeerPath> paths() const;
  std::string compute() const;
  std::int64_t verified_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane::live
