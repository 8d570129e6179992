#pragma once
// Does the work of a GPU's streams by kernels, a call a step.

#include <cstddef>
#include <memory>
#include <string>

#include "calibrate/live/compute/worker.h"
#include "calibrate/measure/backend.h"

namespace kvlane::live {

// The kernels of a device for one thread.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual calibrate::Backend& backend() = 0;
  virtual const char* gemm_dtype() const = 0;
  // How many calls may be asked for before their end is waited for. A GPU queues; a CPU does each
  // at once.
  virtual std::size_t calls_ahead() const = 0;
  virtual void finish() = 0;
  // From the device's memory.
  virtual void fetch(void* to, const void* from, std::size_t bytes) = 0;
};

class KernelCrew final : public Crew {
 public:
  // `model` outlives this.
  KernelCrew(const CostModel& model, std::unique_ptr<KernelSet> kernels);
  bool begin(Job& job, bool others) override;
  bool step(Job& job) override;

 private:
  Selection fetched(const SelectionOutput& output);

  const CostModel& model_;
  std::unique_ptr<KernelSet> kernels_;
  WorkCalls calls_;
};

}  // namespace kvlane::live
