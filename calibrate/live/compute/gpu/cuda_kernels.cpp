#include "calibrate/live/compute/gpu/cuda_kernels.h"

#include <algorithm>

namespace kvlane::live {
namespace {

namespace cuda = kernels::cuda;

constexpr std::int64_t kLeast = std::int64_t{64} << 20U, kMost = std::int64_t{4} << 30U;

std::size_t room(std::int64_t wanted) {
  if (wanted > 0) return static_cast<std::size_t>(wanted);
  const auto free = static_cast<std::int64_t>(cuda::free_device_memory());
  return static_cast<std::size_t>(std::clamp(free / 8, kLeast, kMost));
}

}  // namespace

CudaKernels::CudaKernels(int device, std::int64_t bytes)
    : stream_((cuda::use_device(device), cuda::create_stream())),
      values_(room(bytes)),
      results_(values_.bytes()),
      operands_({values_.data(), values_.bytes()}, {results_.data(), results_.bytes()},
                [stream = stream_.get()](void* to, const void* from, std::size_t count) {
                  cuda::copy(to, from, count, stream);
                  cuda::synchronize(stream);  // a list may be gone when this returns
                }),
      backend_(operands_, stream_.get(), cuda::device_info(device).capability) {}

void CudaKernels::fetch(void* to, const void* from, std::size_t bytes) {
  cuda::copy(to, from, bytes, stream_.get());
  finish();
}

}  // namespace kvlane::live
