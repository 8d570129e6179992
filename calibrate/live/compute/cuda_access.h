#pragma once
// What a program that links kvlane::live_gpu gives to its live runs, which know no CUDA.

#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/loop/wall_loop.h"
#include "sim/gpu/cost_model.h"
#include "sim/port/compute.h"
#include "sim/port/trace.h"

namespace kvlane::live {

struct CudaAccess {
  // Why there is no GPU; empty where there is one.
  std::string (*obstacle)() = nullptr;
  // As CudaCompute (compute/gpu/cuda_compute.h), devices 0, 1, ... for `own`.
  std::unique_ptr<Compute> (*open)(WallLoop& loop, std::vector<const CostModel*> models,
                                   const std::vector<GpuId>& own,
                                   const std::vector<int>& processors, TraceSink* trace) = nullptr;
};
CudaAccess cuda_access();

}  // namespace kvlane::live
