#pragma once
// The kernels of a GPU in one stream, with device memory of their own. Used by one thread, which
// has made the device its own (cuda::use_device).

#include <cstddef>
#include <cstdint>

#include "calibrate/live/compute/kernel_crew.h"
#include "calibrate/measure/gpu/gpu_backend.h"
#include "calibrate/measure/gpu/gpu_handles.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::live {

class CudaKernels final : public KernelSet {
 public:
  // Bytes for values and for results each; 0: an eighth of what is free on the device, 4 GiB at
  // most. Throws std::runtime_error where CUDA does.
  explicit CudaKernels(int device, std::int64_t bytes);

  calibrate::Backend& backend() override { return backend_; }
  const char* gemm_dtype() const override { return "bf16"; }
  // Whole pieces of work: the stream is this thread's alone.
  std::size_t calls_ahead() const override { return std::size_t{1} << 20U; }
  void finish() override { kernels::cuda::synchronize(stream_.get()); }
  void fetch(void* to, const void* from, std::size_t bytes) override;

 private:
  calibrate::OwnedStream stream_;
  kernels::cuda::DeviceBuffer values_, results_;
  calibrate::Operands operands_;
  calibrate::GpuBackend backend_;
};

}  // namespace kvlane::live
