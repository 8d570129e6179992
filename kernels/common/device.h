#pragma once
// What a kernel is written in. nvcc gets CUDA; any other compiler gets the executor of the tests
// (tests/support/cuda_host), which runs the same source on the CPU. No kernel tests a macro itself.

#include <cstddef>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include "tests/support/cuda_host/device.h"
#endif

namespace kvlane::kernels::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr int kWarp = 32;

// A name as a template argument.
template <std::size_t kSize>
struct Name {
  char text[kSize]{};
  constexpr Name(const char (&from)[kSize]) {  // NOLINT(google-explicit-constructor)
    for (std::size_t i = 0; i < kSize; ++i) text[i] = from[i];
  }
};

// auto& tile = shared<float[32][33], "tile">(): __shared__ memory; the name is unique in a kernel.
// auto* all = dynamic_shared<float>(): the bytes that the launch asked for, 16-byte aligned.
#if defined(__CUDACC__)
template <typename T, Name kName>
__device__ __forceinline__ T& shared() {
  __shared__ T storage;
  return storage;
}
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char kvlane_dynamic_shared[];
  return reinterpret_cast<T*>(kvlane_dynamic_shared);
}
#else
template <typename T, Name kName>
T& shared() {
  return host_shared<T, kName>();
}
template <typename T>
T* dynamic_shared() {
  return host_dynamic_shared<T>();
}
#endif

}  // namespace kvlane::kernels::cuda
