// What calls libraries of CUDA's on a GPU, on the executor: matrix products by the reference,
// batches of copies one by one. For programs that measure; tests of kernels need neither.

#include "kernels/common/cuda_device.h"
#include "kernels/gemm/cuda.h"
#include "kernels/kv_gather/cuda.h"

namespace kvlane::kernels::cuda {

Blas::Blas() = default;
Blas::~Blas() = default;
std::string Blas::version() const { return "none"; }

void gemm(const Gemm& args, const Blas&, Stream) { ref::gemm(args); }

void copy_batch(const Copies& copies, Stream stream) {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copy(copies.to[i], copies.from[i], copies.bytes[i], stream);
  }
}

}  // namespace kvlane::kernels::cuda
