#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_device.h"
#include "kernels/kv_gather/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

#if CUDART_VERSION >= 12080
bool driver_has_batches() {
  static const bool has = [] {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess && version >= 12080;
  }();
  return has;
}

void batch(const Copies& copies, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;  // the attributes are those of copy 0 and all behind it
  // The runtime changes none of the arrays; before CUDA 13 its types do not say so.
  auto* to = const_cast<void**>(copies.to.data());
  auto* bytes = const_cast<std::size_t*>(copies.bytes.data());
#if CUDART_VERSION >= 13000
  check(cudaMemcpyBatchAsync(to, copies.from.data(), bytes, copies.size(), &attributes, &first, 1,
                             stream));
#else
  auto* from = const_cast<void**>(copies.from.data());
  std::size_t failed = 0;
  check(cudaMemcpyBatchAsync(to, from, bytes, copies.size(), &attributes, &first, 1, &failed,
                             stream));
#endif
}
#endif

}  // namespace

void copy_batch(const Copies& copies, Stream stream) {
#if CUDART_VERSION >= 12080
  if (copies.size() > 1 && stream != nullptr && driver_has_batches()) {
    batch(copies, reinterpret_cast<cudaStream_t>(stream));
    return;
  }
#endif
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copy(copies.to[i], copies.from[i], copies.bytes[i], stream);
  }
}

}  // namespace kvlane::kernels::cuda
