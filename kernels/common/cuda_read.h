#pragma once
// A streaming read: what a GPU's memory gives at most, the ceiling that other kernels are held
// against.

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"

namespace kvlane::kernels::cuda {

// *sum = the 32-bit words at `from` added up, modulo 2^32. `from` and `bytes` are multiples of 16,
// `bytes` at most 2^40; both pointers are the device's.
void sum_words(const void* from, std::size_t bytes, std::uint32_t* sum, Stream stream);
Budget sum_words_budget();

}  // namespace kvlane::kernels::cuda
