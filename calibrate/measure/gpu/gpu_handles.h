#pragma once
// Streams, events and pinned memory with an owner.

#include <cstddef>
#include <memory>

#include "kernels/common/cuda_device.h"

namespace kvlane::calibrate {

template <auto kDestroy>
struct CudaDeleter {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};

// On the executor of the tests a stream is null: nothing to destroy.
using OwnedStream =
    std::unique_ptr<kernels::cuda::StreamHandle, CudaDeleter<kernels::cuda::destroy_stream>>;
using OwnedEvent =
    std::unique_ptr<kernels::cuda::EventHandle, CudaDeleter<kernels::cuda::destroy_event>>;

class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::size_t bytes)
      : memory_(kernels::cuda::pinned_allocate(bytes)), bytes_(bytes) {}
  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, CudaDeleter<kernels::cuda::pinned_free>> memory_;
  std::size_t bytes_;
};

}  // namespace kvlane::calibrate
