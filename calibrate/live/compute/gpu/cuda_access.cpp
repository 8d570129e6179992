#include "calibrate/live/compute/cuda_access.h"

#include "calibrate/live/compute/gpu/cuda_compute.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::live {

CudaAccess cuda_access() {
  CudaAccess access;
  access.obstacle = []() -> std::string {
    try {
      return kernels::cuda::devices() > 0 ? "" : "no NVIDIA GPU here";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  access.open = [](WallLoop& loop, std::vector<const CostModel*> models,
                   const std::vector<GpuId>& own, const std::vector<int>& processors,
                   TraceSink* trace) -> std::unique_ptr<Compute> {
    CudaComputeOptions options;
    options.processors = processors;
    return std::make_unique<CudaCompute>(loop, std::move(models), own, options, trace);
  };
  return access;
}

}  // namespace kvlane::live
