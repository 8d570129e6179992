#pragma once
// What the CPU device measures of memory: streaming reads, copies, and KV rows collected in it.

#include "calibrate/measure/device.h"
#include "calibrate/measure/operands.h"
#include "kernels/common/cpu.h"

namespace kvlane::calibrate {

// A word of every line, on all threads.
Call read_call(const std::byte* from, std::size_t bytes, kernels::Cpu& cpu);

// read, copy, kv_gather, kv_scatter; empty for other kernels. Throws NoRoom.
Call cpu_memory_call(const Sample& shape, Operands& operands, kernels::Cpu& cpu);

}  // namespace kvlane::calibrate
