#pragma once
// Errors of the CUDA runtime become exceptions that say what and where.

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace kvlane::kernels::cuda {

inline void check(cudaError_t error, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error) + " (" +
                           cudaGetErrorName(error) + ") at " + file + ":" + std::to_string(line));
}

}  // namespace kvlane::kernels::cuda
