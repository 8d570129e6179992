#pragma once
// Memory that the CPU's caches forget, line by line: in the time of the operands' own bytes, not of
// the last-level cache's, which on a large server takes a hundred times as long as a call.

#include <cstddef>

#include "kernels/common/cpu.h"

namespace kvlane::calibrate {

// Whether the processor has an instruction for it (x86: clflushopt).
bool can_forget_lines();

// Writes back and drops the lines of [from, from + bytes) from every level, on all threads. Only
// where can_forget_lines().
void forget_lines(const std::byte* from, std::size_t bytes, kernels::Cpu& cpu);

}  // namespace kvlane::calibrate
