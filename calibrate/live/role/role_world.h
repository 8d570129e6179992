#pragma once
// The world of one role: the ports of this process and the places of all instances. What policies
// are told of rates comes from the scenario, as in the simulator: a live run decides alike.

#include <memory>
#include <vector>

#include "calibrate/live/loop/run_loop.h"
#include "calibrate/live/role/options.h"
#include "sim/port/compute.h"
#include "sim/port/trace.h"
#include "sim/run/world.h"

namespace kvlane::live {

class RoleWorld final : public World {
 public:
  // `here`: the endpoint of this process. All arguments outlive it.
  RoleWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
            EventLoop& loop, Transport& transport, Compute& compute, EndpointId here);

  EventLoop& loop() override { return loop_; }
  Transport& transport() override { return transport_; }
  Compute& compute() override { return compute_; }
  const std::vector<Instance>& instances() const override { return instances_; }
  bool moves_bytes() const override { return true; }
  Bandwidth path(EndpointId prefill, EndpointId decode) const override {
    return rates_.path(prefill, decode);
  }
  Bandwidth port(EndpointId endpoint) const override { return rates_.port(endpoint); }

 private:
  struct NoTrace final : TraceSink {
    void record(const TraceRecord&) override {}
  };
  NoTrace no_trace_;
  SimWorld rates_;  // never run
  EventLoop& loop_;
  Transport& transport_;
  Compute& compute_;
  std::vector<Instance> instances_;
};

}  // namespace kvlane::live
