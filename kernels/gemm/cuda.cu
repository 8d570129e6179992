// cuBLAS multiplies column-major matrices. A row-major [r][c] is a column-major c x r, so
// out[m][n] = a[m][k] b[n][k]^T is, column-major, out (n x m) = b (k x n)^T a (k x m).
//
// cuBLAS is opened at run time (dlopen): one program serves machines with and without it, and
// kernels that multiply no matrices ask for no library.

#include <cublas_v2.h>
#include <dlfcn.h>

#include <string>

#include "kernels/common/argument.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_device.h"
#include "kernels/gemm/cuda.h"

namespace kvlane::kernels::cuda {
namespace {

// The calls in use. Other major versions have other ABIs: only the one of the headers is opened.
struct Library {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasGetProperty) property;
  decltype(&cublasGetStatusString) status_text;
  // The header overloads it for C++.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                         int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                         cublasGemmAlgo_t);
};

void* open_library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  if (void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string problem = dlerror();
#if defined(KVLANE_CUBLAS_FOLDER)  // of the toolkit that built this, often not on the loader's path
  if (void* found = dlopen((KVLANE_CUBLAS_FOLDER "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return found;
  }
#endif
  throw std::runtime_error("cuBLAS: " + problem + "; expected it on the loader's path");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const found = dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("cuBLAS: it lacks ") + name);
  function = reinterpret_cast<Function>(found);
}

// Stays open until the program ends.
const Library& blas_library() {
  static const Library library = [] {
    void* const opened = open_library();
    Library all{};
    find(opened, "cublasCreate_v2", all.create);
    find(opened, "cublasDestroy_v2", all.destroy);
    find(opened, "cublasSetStream_v2", all.set_stream);
    find(opened, "cublasGetProperty", all.property);
    find(opened, "cublasGetStatusString", all.status_text);
    find(opened, "cublasGemmEx", all.gemm);
    return all;
  }();
  return library;
}

void check_blas(cublasStatus_t status, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLAS: ") + blas_library().status_text(status) + " at " +
                           file + ":" + std::to_string(line));
}

cudaDataType_t type_of(Format format) {
  return format == Format::fp32 ? CUDA_R_32F : format == Format::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

Blas::Blas() {
  cublasHandle_t handle = nullptr;
  check_blas(blas_library().create(&handle));
  handle_ = handle;
}

Blas::~Blas() { (void)blas_library().destroy(static_cast<cublasHandle_t>(handle_)); }

std::string Blas::version() const {
  std::string text;
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    check_blas(blas_library().property(part, &number));
    if (!text.empty()) text += '.';
    text += std::to_string(number);
  }
  return text;
}

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
  check_blas(blas_library().set_stream(handle, reinterpret_cast<cudaStream_t>(stream)));
  const float one = 1, zero = 0;
  const cudaDataType_t type = type_of(args.format);
  check_blas(blas_library().gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, args.n, args.m, args.k, &one,
                                 args.b, type, args.k, args.a, type, args.k, &zero, args.out, type,
                                 args.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace kvlane::kernels::cuda
