#include "sim/run/world.h"

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane {
namespace {

constexpr const char* kDefaultSwitch = "switch";

}  // namespace

std::vector<std::unique_ptr<CostModel>> make_cost_models(const Scenario& scenario,
                                                         const KernelTables& tables,
                                                         const FactorsByGpu& factors) {
  std::vector<std::unique_ptr<CostModel>> models;
  for (const InstanceGroup& group : scenario.instances) {
    const auto table = tables.find(group.gpu.name);
    const auto factor = factors.find(group.gpu.name);
    models.push_back(
        std::make_unique<CostModel>(group.gpu, scenario.model, group.tp,
                                    scenario.serving.sliding_window == SlidingWindow::as_full,
                                    table == tables.end() ? nullptr : table->second.get(),
                                    factor == factors.end() ? kNoFactors : factor->second));
  }
  return models;
}

SimWorld::SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
                   LinkSpeed speed, TraceSink& trace)
    : SimWorld(scenario, models, speed, trace, std::make_unique<VirtualLoop>(), nullptr) {}

SimWorld::SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
                   LinkSpeed speed, TraceSink& trace, EventLoop& loop)
    : SimWorld(scenario, models, speed, trace, nullptr, &loop) {}

SimWorld::SimWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
                   LinkSpeed speed, TraceSink& trace, std::unique_ptr<VirtualLoop> own,
                   EventLoop* other)
    : scenario_(scenario),
      models_(models),
      charges_(*this, trace),
      own_loop_(std::move(own)),
      loop_(other != nullptr ? *other : *own_loop_),
      network_(loop_),
      topology_(network_),
      transport_(loop_, network_, topology_, &charges_),
      compute_(loop_, network_, &trace) {
  for (std::size_t g = 0; g < scenario_.instances.size(); ++g) {
    for (const std::string& name : instance_names(scenario_.instances[g])) {
      Instance instance;
      instance.group = g;
      instance.name = name;
      instance_nodes_.push_back(topology_.add_node(name));
      nodes_.emplace_back(name, instance_nodes_.back());
      instances_.push_back(std::move(instance));
    }
  }
  charges_.none = speed.infinite;
  build_cables(speed);
  build_instances(models, speed);
  schedule_link_events(speed);
}

void SimWorld::Charges::record(const TraceRecord& r) {
  next.record(r);
  if (none || r.kind != TraceKind::transfer) return;
  const auto charge = [&](EndpointId endpoint, Duration NicSpec::*a_byte) {
    const Instance& instance = world.instances_[endpoint.index()];
    const Duration cost = world.scenario_.instances[instance.group].nic.*a_byte;
    if (cost == Duration::zero()) return;
    const Duration taken = cost * (r.bytes + r.mask).count();
    for (const Worker& worker : instance.workers) {
      for (const GpuId gpu : worker.gpus) world.compute_.hold_up(gpu, taken);
    }
  };
  charge(r.source, &NicSpec::cpu_a_byte_sent);
  charge(r.destination, &NicSpec::cpu_a_byte_received);
}

Bandwidth SimWorld::scaled(Bandwidth rate, LinkSpeed speed) const {
  if (speed.infinite) return Bandwidth::unlimited();
  return speed.scale == 1 ? rate : rate.scaled(speed.scale);
}

// A group's name stands for each of its members.
std::vector<NodeId> SimWorld::nodes_of(const std::string& name) const {
  const std::vector<std::string> members = end_names(scenario_, name);
  std::vector<NodeId> found;
  for (const std::string& member : members) {
    for (const auto& [node, id] : nodes_) {
      if (node == member) found.push_back(id);
    }
  }
  KVLANE_CHECK(found.size() == members.size(), "no instance or switch is called {}", name);
  return found;
}

void SimWorld::build_cables(LinkSpeed speed) {
  std::vector<Cable> cables = scenario_.cables;
  std::vector<std::string> switches = scenario_.switches;
  if (cables.empty()) {
    // No network section: one switch that never limits.
    switches = {kDefaultSwitch};
    for (const InstanceGroup& group : scenario_.instances) {
      Cable cable;
      cable.from = group.name;
      cable.to = kDefaultSwitch;
      cables.push_back(cable);
    }
  }
  for (const std::string& name : switches) nodes_.emplace_back(name, topology_.add_node(name));
  for (const Cable& cable : cables) {
    for (const NodeId a : nodes_of(cable.from)) {
      for (const NodeId b : nodes_of(cable.to)) {
        topology_.add_cable(a, b, scaled(cable.rate, speed),
                            speed.infinite ? Duration::zero() : cable.latency, true);
      }
    }
  }
}

void SimWorld::build_instances(const std::vector<std::unique_ptr<CostModel>>& models,
                               LinkSpeed speed) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    Instance& instance = instances_[i];
    const InstanceGroup& group = scenario_.instances[instance.group];
    NicSpec nic = group.nic;
    nic.rate = scaled(nic.rate, speed);
    if (speed.infinite) {
      nic.efficiency = 1;
      nic.message_rate = 0;
      nic.latency = nic.per_message = nic.per_doorbell = Duration::zero();
      nic.lane_priority = true;
    }
    instance.endpoint = transport_.add_endpoint(instance_nodes_[i], nic);
    const LinkId host =
        network_.add_link(instance.name + " host memory", group.gpu.host_memory, true);
    Worker worker;
    for (std::int64_t g = 0; g < group.gpus; ++g) {
      const std::string name =
          group.gpus == 1 ? instance.name : fmt::format("{} gpu {}", instance.name, g);
      const LinkId h2d = network_.add_link(name + " H2D", group.gpu.pcie_h2d);
      const LinkId d2h = network_.add_link(name + " D2H", group.gpu.pcie_d2h);
      const GpuId gpu = compute_.add_gpu(*models[instance.group], h2d, d2h, host);
      KVLANE_CHECK(gpu.index() == gpu_names_.size(), "GPUs are numbered in order");
      transport_.attach_gpu(gpu, h2d, d2h);
      gpu_names_.push_back(name);
      pcie_.emplace_back(h2d, d2h);
      worker.gpus.push_back(gpu);
      if (static_cast<int>(worker.gpus.size()) == group.tp) {
        instance.workers.push_back(std::move(worker));
        worker = {};
      }
    }
  }
}

// An event states the cable's rate; the NICs at its ends and their headers limit it as before.
void SimWorld::schedule_link_events(LinkSpeed speed) {
  if (speed.infinite) return;
  for (const LinkEvent& event : scenario_.link_events) {
    for (const NodeId a : nodes_of(event.from)) {
      for (const NodeId b : nodes_of(event.to)) {
        schedule_change(event, speed, a, b);
      }
    }
  }
}

void SimWorld::schedule_change(const LinkEvent& event, LinkSpeed speed, NodeId a, NodeId b) {
  for (const LinkId link : {topology_.link(a, b), topology_.link(b, a)}) {
    Bandwidth rate = scaled(event.rate, speed);
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      if (instance_nodes_[i] != a && instance_nodes_[i] != b) continue;
      const NicSpec& nic = scenario_.instances[instances_[i].group].nic;
      rate = std::min(rate, scaled(nic.rate, speed)).scaled(nic.efficiency);
    }
    auto change = std::make_unique<Change>();
    change->world = this;
    change->link = link;
    change->built = network_.capacity(link);
    change->rate = rate;
    loop_.schedule_at(TimePoint(event.at), {[](void* context, std::uint64_t) {
                                              auto& c = *static_cast<Change*>(context);
                                              c.world->network_.set_capacity(c.link, c.rate);
                                            },
                                            change.get(), 0});
    changes_.push_back(std::move(change));
  }
}

std::vector<std::string> SimWorld::endpoint_names() const {
  std::vector<std::string> names;
  for (const Instance& instance : instances_) names.push_back(instance.name);
  return names;
}

Bandwidth SimWorld::path(EndpointId prefill, EndpointId decode) const {
  return transport_.path_rate(prefill, decode);
}

Bandwidth SimWorld::line_rate(EndpointId from, EndpointId to) {
  Bandwidth rate = Bandwidth::unlimited();
  const NodeId a = instance_nodes_[from.index()];
  for (const LinkId link : topology_.route(a, instance_nodes_[to.index()]).links) {
    Bandwidth built = network_.capacity(link);
    for (const auto& change : changes_) {
      if (change->link == link) built = change->built;
    }
    rate = std::min(rate, built);
  }
  return rate;
}

// The widest of an endpoint's cables: what its NIC can carry.
Bandwidth SimWorld::port(EndpointId endpoint) const {
  Bandwidth widest{};
  for (const LinkId link : topology_.links_at(instance_nodes_[endpoint.index()])) {
    widest = std::max(widest, network_.capacity(link));
  }
  return widest;
}

void SimWorld::mark_copies() const {
  std::size_t gpu = 0;
  for (const Instance& instance : instances_) {
    for (std::int64_t g = 0; g < scenario_.instances[instance.group].gpus; ++g, ++gpu) {
      for (const LinkId link : {pcie_[gpu].first, pcie_[gpu].second}) {
        for (const Bytes bytes : network_.usage(link).bytes) {
          if (bytes.count() > 0) models_[instance.group]->usage().mark(KernelClass::copy);
        }
      }
    }
  }
}

std::vector<std::pair<std::string, double>> SimWorld::utilisation(TimePoint end) const {
  std::vector<std::pair<std::string, double>> shares;
  const double seconds = to_seconds(end);
  if (seconds <= 0) return shares;
  for (std::uint32_t l = 0; l < network_.link_count(); ++l) {
    const LinkId link(l);
    if (network_.capacity(link).is_unlimited()) continue;
    const double share = network_.usage(link).share_time / seconds;
    KVLANE_CHECK(share <= 1 + 1e-6, "{} carried {} of what it can", network_.name(link), share);
    shares.emplace_back(network_.name(link), std::min(1.0, share));
  }
  // The GPUs of a worker work alike: the first one stands for all of them.
  for (const Instance& instance : instances_) {
    for (const Worker& worker : instance.workers) {
      const double share = to_seconds(compute_.busy(worker.gpus.front())) / seconds;
      KVLANE_CHECK(share <= 1 + 1e-6, "{} worked {} of the time", instance.name, share);
      for (const GpuId gpu : worker.gpus) {
        shares.emplace_back(gpu_names_[gpu.index()] + " compute", std::min(1.0, share));
      }
    }
  }
  return shares;
}

}  // namespace kvlane
