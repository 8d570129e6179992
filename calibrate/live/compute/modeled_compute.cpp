#include "calibrate/live/compute/modeled_compute.h"

#include "sim/base/check.h"

namespace kvlane::live {

std::vector<const CostModel*> gpu_models(const Scenario& scenario,
                                         const std::vector<std::unique_ptr<CostModel>>& models) {
  KVLANE_CHECK(models.size() == scenario.instances.size(), "{} cost models for {} instance groups",
               models.size(), scenario.instances.size());
  std::vector<const CostModel*> found;
  for (std::size_t group = 0; group < models.size(); ++group) {
    const std::int64_t gpus = scenario.instances[group].count * scenario.instances[group].gpus;
    found.insert(found.end(), static_cast<std::size_t>(gpus), models[group].get());
  }
  return found;
}

ModeledCompute::ModeledCompute(EventLoop& loop, const Scenario& scenario,
                               const std::vector<std::unique_ptr<CostModel>>& models,
                               TraceSink* trace)
    : network_(loop), compute_(loop, network_, trace) {
  const std::vector<const CostModel*> by_gpu = gpu_models(scenario, models);
  std::size_t next = 0;
  for (const InstanceGroup& group : scenario.instances) {
    for (std::int64_t instance = 0; instance < group.count; ++instance) {
      const LinkId host = network_.add_link("host memory", group.gpu.host_memory);
      for (std::int64_t g = 0; g < group.gpus; ++g, ++next) {
        const LinkId to_device = network_.add_link("H2D", group.gpu.pcie_h2d);
        const LinkId to_host = network_.add_link("D2H", group.gpu.pcie_d2h);
        const GpuId gpu = compute_.add_gpu(*by_gpu[next], to_device, to_host, host);
        KVLANE_CHECK(gpu.index() == next, "GPUs are numbered in order");
      }
    }
  }
}

}  // namespace kvlane::live
