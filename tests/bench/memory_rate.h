#pragma once
// What memory gives the same threads: the ceilings that kernels are held against.

#include <cstddef>
#include <cstdint>

#include "kernels/common/cpu.h"

namespace kvlane::bench {

// Sum of all words, read once from front to end by every thread in turn of 1 MiB.
std::uint64_t read_all(const void* from, std::size_t bytes, kernels::Cpu& cpu);
// The library's memcpy, a part a thread.
void copy_all(void* to, const void* from, std::size_t bytes, kernels::Cpu& cpu);
// Of the last level of cache that the system names; 32 MiB where it names none.
std::size_t last_level_cache();

}  // namespace kvlane::bench
