#pragma once
// The compute port by CUDA kernels. A GPU of this process is five threads: one a stream, one a copy
// engine, one that collects rows in host memory. Operands are as synthetic as on a CPU
// (cpu_compute.h); each stream has its own.

#include <cstdint>
#include <vector>

#include "calibrate/live/compute/kernel_compute.h"

namespace kvlane::live {

struct CudaComputeOptions {
  std::vector<int> devices;              // of `own`, one each; empty: 0, 1, ...
  std::vector<int> processors;           // where the threads run; empty: anywhere
  std::int64_t operand_bytes = 0;        // of a stream, for values and for results each; 0: a part
  std::int64_t copied_bytes = 64 << 20;  // of each buffer that copies and gathers use
};

class CudaCompute final : public KernelCompute {
 public:
  // Throws calibrate::NoDevice where a device is not there.
  CudaCompute(WallLoop& loop, std::vector<const CostModel*> models, const std::vector<GpuId>& own,
              const CudaComputeOptions& options, TraceSink* trace);
  ~CudaCompute() override;
};

}  // namespace kvlane::live
