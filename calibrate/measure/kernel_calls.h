#pragma once
// From a sample's shape to a kernel's arguments, the same on every device.

#include "calibrate/measure/backend.h"
#include "kernels/kv_gather/kernel.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// A call of the kernel over operands of the shape; empty for kernels that move between memories
// (read, copy, kv_gather, kv_scatter), which are each device's own, and where the backend's is
// empty. Throws NoRoom.
Call kernel_call(const Sample& shape, Backend& backend);

// The arguments of kv_gather and kv_scatter: the cache in one memory, what was gathered in another,
// the lists where they are wanted. Throws NoRoom.
kernels::KvGather gather_arguments(const Sample& shape, Operands& cache, Operands& packed,
                                   Operands& lists);

// Sizes of a sample by name.
inline int size_in(const Sample& shape, const char* name) {
  return static_cast<int>(dimension(shape, name));
}

// Parts of kernel_call, each empty for kernels of the others.
Call attention_call(const Sample& shape, Backend& backend);
Call selection_call(const Sample& shape, Backend& backend);
Call hack_call(const Sample& shape, Backend& backend);
Call layer_call(const Sample& shape, Backend& backend);  // GEMM too

}  // namespace kvlane::calibrate
