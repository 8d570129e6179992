// cuBLAS multiplies column-major matrices. A row-major [r][c] is a column-major c x r, so
// out[m][n] = a[m][k] b[n][k]^T is, column-major, out (n x m) = b (k x n)^T a (k x m).

#include <cublas_v2.h>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_device.h"
#include "kernels/gemm/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status) + " at " + file +
                           ":" + std::to_string(line));
}

cudaDataType_t type_of(Format format) {
  return format == Format::fp32 ? CUDA_R_32F : format == Format::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

Blas::Blas() {
  cublasHandle_t handle = nullptr;
  check_blas(cublasCreate(&handle));
  handle_ = handle;
}

Blas::~Blas() { (void)cublasDestroy(static_cast<cublasHandle_t>(handle_)); }

void gemm(const Gemm& args, const Blas& blas, Stream stream) {
  require(problem(args));  // looks at sizes and for null only
  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) {
    fill(
        args.out, 0,
        static_cast<std::size_t>(args.m) * static_cast<std::size_t>(args.n) * bytes_of(args.format),
        stream);
    return;
  }
  const auto handle = static_cast<cublasHandle_t>(blas.handle());
  check_blas(cublasSetStream(handle, reinterpret_cast<cudaStream_t>(stream)));
  const float one = 1, zero = 0;
  const cudaDataType_t type = type_of(args.format);
  check_blas(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, args.n, args.m, args.k, &one, args.b,
                          type, args.k, args.a, type, args.k, &zero, args.out, type, args.n,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace kvlane::kernels::cuda
