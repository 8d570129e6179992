#pragma once
// The compute port over the cost model: FIFO streams a GPU, copies as flows over PCIe and host
// memory.
//
// The two streams of a GPU do not slow each other down; those of a CPU take turns, and
// its copies and gathers hold them up (turns.h). One direction of PCIe has one copy engine:
// its copies run in the order posted, each after its fixed cost a launch; transfers by GPUDirect
// share the direction's link with the copy that runs. gather_host belongs to the CPU: it waits for
// no stream, one gather of a GPU at a time, and moves its bytes twice (read and write) through
// host memory.

#include <memory>

#include "sim/gpu/cost_model.h"
#include "sim/net/fluid_network.h"
#include "sim/port/compute.h"
#include "sim/port/trace.h"

namespace kvlane {

class SimCompute final : public Compute {
 public:
  // Compute records are written when work is posted (its time is known then), copies and gathers
  // when they end. `trace` may be null.
  SimCompute(EventLoop& loop, FluidNetwork& network, TraceSink* trace);
  ~SimCompute() override;

  // `model` outlives this. host_memory: the link that copies and gathers of this GPU's host share.
  GpuId add_gpu(const CostModel& model, LinkId host_to_device, LinkId device_to_host,
                LinkId host_memory);

  void post(GpuId gpu, Stream stream, const Work& work, Callback completion) override;
  void copy(const CopySpec& copy, Callback completion) override;
  Duration estimate(GpuId gpu, const Work& work) const override;

  Duration busy(GpuId gpu) const;  // of the compute stream, up to now
  // The processors that the GPU's kernels run on were taken for as long (turns.h); nothing to a GPU
  // of its own.
  void hold_up(GpuId gpu, Duration taken);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane
