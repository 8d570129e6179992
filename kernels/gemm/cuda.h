#pragma once
// Matrix products on a GPU: cuBLAS. Pointers of Gemm are device pointers. The library is opened
// when the first Blas is made, so that programs start on machines that lack it.

#include <string>

#include "kernels/common/cuda_stream.h"
#include "kernels/gemm/kernel.h"

namespace kvlane::kernels::cuda {

// A cuBLAS handle of the device in use when it is made, and of one thread at a time. Making one
// takes some 100 ms and memory on the device.
class Blas {
 public:
  Blas();  // std::runtime_error where the machine has no cuBLAS
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  void* handle() const { return handle_; }  // cublasHandle_t
  std::string version() const;              // "13.0.2"

 private:
  void* handle_ = nullptr;
};

// Sums in fp32; fp32 operands are not rounded to TF32.
void gemm(const Gemm& args, const Blas& blas, Stream stream);

}  // namespace kvlane::kernels::cuda
