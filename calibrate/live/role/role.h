#pragma once
// What both roles have in common: this process's loop, memory, transport and compute, and one run
// over them, from regions to records.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/live/role/byte_inspector.h"
#include "calibrate/live/role/options.h"
#include "calibrate/live/role/records.h"
#include "calibrate/live/role/role_compute.h"
#include "calibrate/live/role/role_world.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/socket/listener.h"
#include "calibrate/live/transport/live_transport.h"
#include "sim/run/deployment.h"
#include "sim/run/workload.h"

namespace kvlane::live {

// Of a scenario, for both roles: which endpoint is which.
struct Places {
  EndpointId decode;
  std::vector<EndpointId> prefills;  // in the scenario's order
  std::vector<std::string> endpoint_names, gpu_names;
  std::vector<std::vector<GpuId>> gpus;  // by endpoint
  std::size_t gpu_count = 0;
  std::uint32_t queues = 1;  // queue pairs a lane: workers of the widest prefill instance
};
// InputError where a live run has no place for it: several decode instances.
Places places_of(const Scenario& scenario);

// What the scenario's NICs carry between the decode instance and a prefill one, payload.
Bandwidth line_between(const Scenario& scenario, const Places& places, EndpointId prefill);

// What both sides must have alike, in words.
Config config_of(const Scenario& scenario, ComputeKind compute, const LiveOptions& options);

// This thread, and those that it starts, to these processors, all when there are none; it wakes
// soon when something is ready.
std::vector<int> usable_processor_list();
void pin_to(const std::vector<int>& processors);

// How long a role's loop looks again before it blocks: not at all where its kernels may want the
// processor.
Duration spin_of(ComputeKind compute);

// A run that both sides prepare in the same way.
struct RunNumber {
  std::uint32_t strategy = 0;
  std::uint32_t seed = 0;  // counted from the scenario's
  std::uint64_t number = 0;
};

class RoleEnd {
 public:
  // `here`: of this process. `loop`, `scenario` and `options` outlive it.
  RoleEnd(WallLoop& loop, const Scenario& scenario, const LiveOptions& options, ComputeKind compute,
          EndpointId here);
  ~RoleEnd();

  // --- one run
  // Makes, fills and exposes the regions of the requests that pass through here.
  std::vector<RegionPlace> prepare(const RunNumber& number);
  // At this moment of the loop's clock every request arrives. `next`: hears of every record.
  void start(TimePoint at, TraceSink* next);
  // Runs until stopped; PeerError when somebody was lost meanwhile.
  void run();
  // Until nothing of ours is in flight, on the wire or in compute.
  void drain();
  // The records, with times from the run's start. Withdraws the regions.
  std::vector<TraceRecord> finish();
  // The first reason counts. Stops the loop.
  void fail(const std::string& reason);
  // Told of requests whose transfers could not be made, before fail().
  std::function<void(RequestId request, const std::string& reason)> push_failed =
      [](RequestId, const std::string&) {};
  void check();  // throws what fail() was told
  const std::string& failure() const { return failure_; }

  WallLoop& loop;
  const Scenario& scenario;
  const LiveOptions& options;
  const Places places;
  const EndpointId here;
  std::vector<std::unique_ptr<CostModel>> models;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<RegionTable> regions;
  std::unique_ptr<LiveTransport> transport;
  std::unique_ptr<RoleCompute> compute;
  std::int64_t verified_bytes = 0;
  // Of the runs to come.
  DeploymentOptions deployment_options;
  // In errors; by endpoint, with their addresses once they are known.
  std::vector<std::string> peer_names;
  // Called now and then while something long keeps the loop from running.
  std::function<void()> breathe = [] {};

  Deployment& deployment();
  const std::vector<RequestPlan>& plans() const;
  Workload& workload(std::uint32_t seed);

 private:
  struct Run;
  void watch_activity();
  std::map<std::uint32_t, std::unique_ptr<Workload>> workloads_;
  std::unique_ptr<Run> run_;
  std::string failure_;
};

}  // namespace kvlane::live
