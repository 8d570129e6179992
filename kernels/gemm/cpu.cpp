#include <cblas.h>

#include <algorithm>

#include "kernels/common/argument.h"
#include "kernels/gemm/kernel.h"

// Not in every cblas.h; OpenBLAS's own.
extern "C" void openblas_set_num_threads(int threads);

namespace kvlane::kernels {

void cpu::gemm(const Gemm& args, int threads) {
  require(problem(args));
  require(args.format == Format::fp32 ? nullptr : "OpenBLAS multiplies fp32 only");
  if (args.m == 0 || args.n == 0) return;
  auto* out = static_cast<float*>(args.out);
  if (args.k == 0) {
    std::fill_n(out, static_cast<std::size_t>(args.m) * static_cast<std::size_t>(args.n), 0.0f);
    return;
  }
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, args.m, args.n, args.k, 1,
              static_cast<const float*>(args.a), args.k, static_cast<const float*>(args.b), args.k,
              0, out, args.n);
}

}  // namespace kvlane::kernels
