#pragma once
// Copies between the two memories of a GPU that is a CPU, and rows collected in its host memory, a
// piece a step.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/live/compute/worker.h"
#include "calibrate/measure/host_memory.h"
#include "kernels/common/cpu.h"

namespace kvlane::live {

class CpuMover final : public Crew {
 public:
  // `bytes`: of each buffer.
  CpuMover(const CostModel& model, std::size_t bytes);
  bool begin(Job& job, bool others) override;
  bool step(Job& job) override;

 private:
  std::int64_t copy(const Job& job, std::int64_t left);
  std::int64_t gather(const Job& job, std::int64_t left);
  std::size_t row_bytes(const Job& job) const;

  const CostModel& model_;
  calibrate::HostMemory host_, device_;
  std::vector<std::int32_t> blocks_, rows_;
  std::size_t next_row_ = 0;
  std::size_t at_ = 0;  // where the next copy reads and writes
  kernels::Cpu cpu_{1};
};

}  // namespace kvlane::live
