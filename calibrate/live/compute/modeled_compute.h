#pragma once
// The compute port that waits for what the cost model says, on any clock: a link can be tried
// without a GPU. It is the simulator's own (sim/gpu/sim_compute.h) over PCIe and host memory of the
// scenario, so that streams, copy engines and gathers take the time they take there.
//
// On a WallLoop a completion's now() is the moment it was modelled for, however late the processor
// came to it. Timers that wait in the loop point into this object: the loop does not run after it.

#include <memory>
#include <vector>

#include "sim/gpu/sim_compute.h"
#include "sim/net/fluid_network.h"
#include "sim/scenario/scenario.h"

namespace kvlane::live {

// The cost model of every GPU, by GpuId: numbered over the instances in the scenario's order, as
// every world numbers them. `models`: one an instance group (make_cost_models).
std::vector<const CostModel*> gpu_models(const Scenario& scenario,
                                         const std::vector<std::unique_ptr<CostModel>>& models);

class ModeledCompute final : public Compute {
 public:
  // All GPUs of the scenario, those of other processes too: these are never posted to. `models`
  // and `trace`, which may be null, outlive this.
  ModeledCompute(EventLoop& loop, const Scenario& scenario,
                 const std::vector<std::unique_ptr<CostModel>>& models, TraceSink* trace);

  void post(GpuId gpu, Stream stream, const Work& work, Callback completion) override {
    compute_.post(gpu, stream, work, completion);
  }
  void copy(const CopySpec& copy, Callback completion) override { compute_.copy(copy, completion); }
  Duration estimate(GpuId gpu, const Work& work) const override {
    return compute_.estimate(gpu, work);
  }
  Duration busy(GpuId gpu) const { return compute_.busy(gpu); }

 private:
  FluidNetwork network_;
  SimCompute compute_;
};

}  // namespace kvlane::live
