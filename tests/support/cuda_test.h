#pragma once
// What tests of CUDA kernels share, on the host executor and on a GPU alike: arrays on the device
// and the loop over seeds.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/common/cuda_device.h"
#if defined(KVLANE_CUDA_HOST)
#include "tests/support/cuda_host/executor.h"
#endif

namespace kvlane::kernels::testing {

// Of exactly `size` elements, so that one too far is seen; uninitialised (0xff).
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : buffer_(size * sizeof(T)), size_(size) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cuda::copy(buffer_.data(), values.data(), size_ * sizeof(T));
    cuda::synchronize();
  }
  T* data() const { return static_cast<T*>(buffer_.data()); }
  std::size_t size() const { return size_; }
  std::vector<T> host() const {
    std::vector<T> values(size_);
    cuda::copy(values.data(), buffer_.data(), size_ * sizeof(T));
    cuda::synchronize();
    return values;
  }

 private:
  cuda::DeviceBuffer buffer_;
  std::size_t size_;
};

// body() under `count` orders of threads: seeds `first` and on. On a GPU, which has its own, once.
template <typename Body>
void for_each_order(int count, Body&& body, std::uint64_t first = 0) {
#if defined(KVLANE_CUDA_HOST)
  for (int i = 0; i < count; ++i) {
    cuda_host::settings().seed = first + static_cast<std::uint64_t>(i);
    body();
  }
#else
  (void)count;
  (void)first;
  body();
#endif
}

// Fewer where a sanitizer is compiled in: races and bad addresses show with the first ones.
inline int orders(int plain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::min(plain, 3);
#elif defined(__has_feature)
#if __has_feature(memory_sanitizer)
  return std::min(plain, 3);
#else
  return plain;
#endif
#else
  return plain;
#endif
}

}  // namespace kvlane::kernels::testing
