#include "kernels/common/argument.h"
#include "kernels/gemm/kernel.h"

namespace kvlane::kernels {

void ref::gemm(const Gemm& args) {
  require(problem(args));
  const auto n = static_cast<std::size_t>(args.n), k = static_cast<std::size_t>(args.k);
  for (std::size_t i = 0; i < static_cast<std::size_t>(args.m); ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += static_cast<double>(load(args.a, args.format, i * k + l)) *
               static_cast<double>(load(args.b, args.format, j * k + l));
      }
      store(args.out, args.format, i * n + j, static_cast<float>(sum));
    }
  }
}

}  // namespace kvlane::kernels
