#pragma once
// Copies of one direction between pinned and device memory, a launch a step: one copy engine.

#include <cstddef>
#include <cstdint>

#include "calibrate/live/compute/worker.h"
#include "calibrate/measure/gpu/gpu_handles.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::live {

class CudaMover final : public Crew {
 public:
  // `bytes`: of the buffer on each side. Throws std::runtime_error where CUDA does.
  CudaMover(int device, std::size_t bytes);
  bool begin(Job& job, bool others) override;
  bool step(Job& job) override;

 private:
  calibrate::OwnedStream stream_;
  calibrate::PinnedBuffer host_;
  kernels::cuda::DeviceBuffer device_;
  std::size_t at_ = 0;
};

}  // namespace kvlane::live
