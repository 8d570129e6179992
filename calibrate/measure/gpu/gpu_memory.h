#pragma once
// What a GPU measures between memories: streaming reads and copies on the device, copies from and
// to the host, KV rows collected in host memory and put back there.

#include <cstddef>
#include <vector>

#include "calibrate/measure/gpu/gpu_device.h"
#include "calibrate/measure/gpu/gpu_handles.h"
#include "calibrate/measure/operands.h"
#include "kernels/kv_gather/cuda.h"

namespace kvlane::calibrate {

class GpuMemory {
 public:
  // Calls are queued in `stream`. `pinned`: operands in host memory that the device reads too.
  GpuMemory(Operands& device, Operands& pinned, kernels::cuda::Stream stream, HostGather gather);

  // read, copy, kv_gather, kv_scatter; empty for other kernels and unknown ways. Throws NoRoom.
  Call call(const Sample& shape);

  // Whether such a call has the host work too, beside asking for it: its time begins with the
  // host's, so nothing may be queued before it.
  static bool host_works(const Sample& shape);

 private:
  Call copy(const Sample& shape);
  Call gather(const Sample& shape);

  Operands& device_;
  Operands& pinned_;
  kernels::cuda::Stream stream_;
  OwnedStream other_way_;
  OwnedEvent begun_, other_done_;
  bool can_pack_;
  kernels::cuda::StagedCopies staged_;
  std::vector<std::byte> pageable_;
};

}  // namespace kvlane::calibrate
