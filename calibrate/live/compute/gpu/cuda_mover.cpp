#include "calibrate/live/compute/gpu/cuda_mover.h"

#include <algorithm>

namespace kvlane::live {

namespace cuda = kernels::cuda;

CudaMover::CudaMover(int device, std::size_t bytes)
    : stream_((cuda::use_device(device), cuda::create_stream())), host_(bytes), device_(bytes) {}

bool CudaMover::begin(Job& job, bool) {
  job.next = 0;
  return true;
}

// All launches are queued, then awaited once.
bool CudaMover::step(Job& job) {
  const std::int64_t all = job.copy.bytes.count();
  const std::int64_t launches = std::max<std::int64_t>(job.copy.copies, 1);
  const std::int64_t each = (all + launches - 1) / launches;
  const bool up = job.copy.direction == CopyDirection::host_to_device;
  for (; job.next < all;) {
    const auto size =
        std::min(static_cast<std::size_t>(std::min(each, all - job.next)), host_.bytes());
    if (at_ + size > host_.bytes()) at_ = 0;
    std::byte* const host = static_cast<std::byte*>(host_.data()) + at_;
    std::byte* const device = device_.as<std::byte>() + at_;
    cuda::copy(up ? device : host, up ? host : device, size, stream_.get());
    at_ += size;
    job.next += static_cast<std::int64_t>(size);
  }
  cuda::synchronize(stream_.get());
  return true;
}

}  // namespace kvlane::live
