#pragma once
// Matrix product out[m][n] = a[m][k] * b[n][k]^T, row-major, the weights as models store them
// ([out features][in features]). A library's: OpenBLAS on the CPU (fp32), cuBLAS on the GPU.

#include <cstdint>

#include "kernels/common/format.h"

namespace kvlane::kernels {

struct Gemm {
  int m = 0, n = 0, k = 0;
  Format format = Format::fp32;  // of all three; sums in fp32
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
};

const char* problem(const Gemm& args);

namespace ref {
void gemm(const Gemm& args);
}
namespace cpu {
// `threads` of OpenBLAS. Only fp32: Debian's OpenBLAS multiplies no 16-bit formats.
void gemm(const Gemm& args, int threads);
}  // namespace cpu

}  // namespace kvlane::kernels
