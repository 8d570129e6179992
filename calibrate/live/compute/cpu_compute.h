#pragma once
// The compute port by real kernels on CPU threads. A GPU of this process is two threads: one for
// its two streams, which take turns kernel by kernel, one for its copies and gathers. "Device
// memory" is another buffer of this process.
//
// Synthetic: weights and KV are values of one block that all layers and GPUs share, a copy of a
// layer's weights for as many layers as the block holds (work_calls.h); copies and gathers go
// round and round in buffers of their own.

#include <cstdint>
#include <vector>

#include "calibrate/live/compute/kernel_compute.h"
#include "calibrate/measure/host_memory.h"
#include "calibrate/measure/operands.h"

namespace kvlane::live {

struct CpuComputeOptions {
  int threads = 1;                // of a GPU's kernels
  std::vector<int> processors;    // where all threads of this run; empty: anywhere
  std::int64_t value_bytes = 0;   // of weights and KV; 0: an eighth of the memory, 1.5 GiB at most
  std::int64_t result_bytes = 0;  // of a GPU's results; 0: half of that
  std::int64_t copied_bytes = 64 << 20;  // of each buffer that copies and gathers use
};

class CpuCompute final : public KernelCompute {
 public:
  // `models`: of all GPUs by GpuId (gpu_models); `own`: those of this process, which work.
  // Throws std::runtime_error for a processor that this process may not use, when work is first
  // posted; std::bad_alloc where the memory is not there.
  CpuCompute(WallLoop& loop, std::vector<const CostModel*> models, const std::vector<GpuId>& own,
             const CpuComputeOptions& options, TraceSink* trace);
  ~CpuCompute() override;

 private:
  struct Memory {
    calibrate::HostMemory results;
    calibrate::Operands operands;
  };
  calibrate::HostMemory values_;
  std::vector<std::unique_ptr<Memory>> memory_;  // a GPU of this process
};

}  // namespace kvlane::live
