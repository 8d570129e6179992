#pragma once
// A world: the ports, and the instances that live behind them. SimWorld is the simulated one of a
// scenario: clock, network, GPUs and transport, built anew for every strategy run. `LinkSpeed`
// scales it: the ideal has links without limits, the verdict asks for other rates.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/des/virtual_loop.h"
#include "sim/gpu/sim_compute.h"
#include "sim/net/sim_transport.h"
#include "sim/scenario/scenario.h"
#include "sim/serving/environment.h"
#include "sim/serving/router.h"

namespace kvlane {

struct LinkSpeed {
  bool infinite = false;
  double scale = 1;  // of every NIC and cable rate
};

class World : public PortRates {
 public:
  struct Instance {
    std::size_t group = 0;  // of Scenario::instances
    std::string name;
    EndpointId endpoint;
    std::vector<Worker> workers;
    bool here = true;  // else in another process
  };
  virtual EventLoop& loop() = 0;
  virtual Transport& transport() = 0;
  virtual Compute& compute() = 0;
  virtual const std::vector<Instance>& instances() const = 0;
  // A world with memory: transfers say where their bytes lie, and rows are named.
  virtual bool moves_bytes() const { return false; }
};

using KernelTables = std::map<std::string, std::shared_ptr<const KernelTable>>;  // by GPU name
using FactorsByGpu = std::map<std::string, KernelFactors>;                       // likewise

// Cost models of a scenario, one an instance group; made once, shared by all runs. `tables`
// outlives them.
std::vector<std::unique_ptr<CostModel>> make_cost_models(const Scenario& scenario,
                                                         const KernelTables& tables = {},
                                                         const FactorsByGpu& factors = {});

class SimWorld final : public World {
 public:
  // `scenario`, `models` and `trace` outlive the world.
  SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
           LinkSpeed speed, TraceSink& trace);
  // On a clock of others, which outlives it: the modelled network beside real compute.
  SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
           LinkSpeed speed, TraceSink& trace, EventLoop& loop);

  EventLoop& loop() override { return loop_; }
  SimTransport& transport() override { return transport_; }
  SimCompute& compute() override { return compute_; }
  const std::vector<Instance>& instances() const override { return instances_; }
  std::vector<std::string> gpu_names() const { return gpu_names_; }
  std::vector<std::string> endpoint_names() const;
  // Tells the cost models whether anything went over PCIe.
  void mark_copies() const;
  // Share of the time until `end` that each port, PCIe direction and GPU was used.
  std::vector<std::pair<std::string, double>> utilisation(TimePoint end) const;

  Bandwidth path(EndpointId prefill, EndpointId decode) const override;
  Bandwidth port(EndpointId endpoint) const override;
  // Of the path as it was built, before any link event.
  Bandwidth line_rate(EndpointId from, EndpointId to);
  Duration latency(EndpointId from, EndpointId to) const {
    return transport_.path_latency(from, to);
  }

 private:
  SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
           LinkSpeed speed, TraceSink& trace, std::unique_ptr<VirtualLoop> own, EventLoop* other);
  void build_instances(const std::vector<std::unique_ptr<CostModel>>& models, LinkSpeed speed);
  void build_cables(LinkSpeed speed);
  void schedule_link_events(LinkSpeed speed);
  void schedule_change(const LinkEvent& event, LinkSpeed speed, NodeId a, NodeId b);
  std::vector<NodeId> nodes_of(const std::string& name) const;
  Bandwidth scaled(Bandwidth rate, LinkSpeed speed) const;

  // Transfers take processor time from kernels of a CPU at both ends.
  struct Charges final : TraceSink {
    Charges(SimWorld& w, TraceSink& n) : world(w), next(n) {}
    void record(const TraceRecord& r) override;
    SimWorld& world;
    TraceSink& next;
    bool none = false;
  };

  const Scenario& scenario_;
  const std::vector<std::unique_ptr<CostModel>>& models_;
  Charges charges_;
  std::unique_ptr<VirtualLoop> own_loop_;  // null on a clock of others
  EventLoop& loop_;
  FluidNetwork network_;
  Topology topology_;
  SimTransport transport_;
  SimCompute compute_;
  std::vector<Instance> instances_;
  std::vector<NodeId> instance_nodes_;                 // by instance, which is by EndpointId
  std::vector<std::pair<std::string, NodeId>> nodes_;  // instances and switches, by name
  std::vector<std::string> gpu_names_;
  std::vector<std::pair<LinkId, LinkId>> pcie_;  // by GpuId: h2d, d2h
  struct Change {
    SimWorld* world = nullptr;
    LinkId link;
    Bandwidth built, rate;
  };
  std::vector<std::unique_ptr<Change>> changes_;
};

}  // namespace kvlane
