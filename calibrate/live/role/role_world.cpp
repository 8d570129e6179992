#include "calibrate/live/role/role_world.h"

namespace kvlane::live {

const char* to_string(TransportKind kind) {
  static constexpr const char* kNames[] = {"auto", "shm", "tcp", "rdma", "modeled"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* to_string(ComputeKind kind) {
  static constexpr const char* kNames[] = {"auto", "cpu", "cuda", "modeled"};
  return kNames[static_cast<std::size_t>(kind)];
}

RoleWorld::RoleWorld(const Scenario& scenario,
                     const std::vector<std::unique_ptr<CostModel>>& models, EventLoop& loop,
                     Transport& transport, Compute& compute, EndpointId here)
    : rates_(scenario, models, {}, no_trace_),
      loop_(loop),
      transport_(transport),
      compute_(compute),
      instances_(rates_.instances()) {
  for (Instance& instance : instances_) instance.here = instance.endpoint == here;
}

}  // namespace kvlane::live
