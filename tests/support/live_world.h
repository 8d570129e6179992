#pragma once
// A second world for a scenario: wall clock, socket transport, and a GPU that waits for what the
// cost model says, `speed_up` times faster. Instances, endpoints and GPUs are numbered as in
// SimWorld; what policies are told of rates comes from the scenario, as there.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/run/world.h"
#include "tests/support/socket_transport.h"
#include "tests/support/wall_loop.h"

namespace kvlane::test {

class WaitingCompute final : public Compute {
 public:
  WaitingCompute(EventLoop& loop, std::int64_t speed_up) : loop_(loop), speed_up_(speed_up) {}

  void add_gpu(const CostModel& model) { models_.push_back(&model); }

  void post(GpuId gpu, Stream stream, const Work& work, Callback completion) override {
    const bool gather = work.kind == WorkKind::gather_host;
    wait(gpu, gather ? kGather : static_cast<std::size_t>(stream), estimate(gpu, work), completion);
  }
  void copy(const CopySpec& copy, Callback completion) override {
    const GpuSpec& spec = models_[copy.gpu.index()]->gpu();
    const bool up = copy.direction == CopyDirection::host_to_device;
    wait(copy.gpu, up ? kToDevice : kToHost,
         spec.pcie_copy * copy.copies +
             serialization_delay(copy.bytes, up ? spec.pcie_h2d : spec.pcie_d2h),
         completion);
  }
  Duration estimate(GpuId gpu, const Work& work) const override {
    return models_[gpu.index()]->duration(work);
  }

 private:
  static constexpr std::size_t kToDevice = 2, kToHost = 3, kGather = 4;
  // One after the other on each of a GPU's resources.
  void wait(GpuId gpu, std::size_t resource, Duration length, Callback completion) {
    TimePoint& free_at = free_at_[{gpu, resource}];
    free_at = std::max(free_at, loop_.now()) + length / speed_up_;
    if (completion) loop_.schedule_at(free_at, completion);
  }

  EventLoop& loop_;
  std::int64_t speed_up_;
  std::vector<const CostModel*> models_;
  std::map<std::pair<GpuId, std::size_t>, TimePoint> free_at_;
};

class LiveWorld final : public World {
 public:
  LiveWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
            TraceSink& trace, std::int64_t speed_up)
      : scenario_(scenario),
        transport_(loop_, endpoint_count(scenario), trace),
        compute_(loop_, speed_up) {
    std::uint32_t gpus = 0;
    for (std::size_t g = 0; g < scenario.instances.size(); ++g) {
      const InstanceGroup& group = scenario.instances[g];
      for (const std::string& name : instance_names(group)) {
        Instance instance;
        instance.group = g;
        instance.name = name;
        instance.endpoint = EndpointId(instances_.size());
        for (std::int64_t i = 0; i < group.gpus; ++i) {
          if (i % group.tp == 0) instance.workers.emplace_back();
          instance.workers.back().gpus.push_back(GpuId(gpus++));
          compute_.add_gpu(*models[g]);
        }
        instances_.push_back(std::move(instance));
      }
    }
  }

  WallLoop& loop() override { return loop_; }
  SocketTransport& transport() override { return transport_; }
  WaitingCompute& compute() override { return compute_; }
  const std::vector<Instance>& instances() const override { return instances_; }
  Bandwidth path(EndpointId prefill, EndpointId decode) const override {
    return std::min(port(prefill), port(decode));
  }
  Bandwidth port(EndpointId endpoint) const override {
    const NicSpec& nic = scenario_.instances[instances_[endpoint.index()].group].nic;
    return nic.rate.scaled(nic.efficiency);
  }

 private:
  static std::size_t endpoint_count(const Scenario& scenario) {
    std::size_t count = 0;
    for (const InstanceGroup& group : scenario.instances) {
      count += static_cast<std::size_t>(group.count);
    }
    return count;
  }

  const Scenario& scenario_;
  WallLoop loop_;
  SocketTransport transport_;
  WaitingCompute compute_;
  std::vector<Instance> instances_;
};

}  // namespace kvlane::test
