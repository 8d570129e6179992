#include "kernels/gemm/kernel.h"

namespace kvlane::kernels {

const char* problem(const Gemm& args) {
  if (args.m < 0 || args.n < 0 || args.k < 0) return "a negative size";
  if (args.m > 0 && args.n > 0 &&
      (args.out == nullptr || (args.k > 0 && (args.a == nullptr || args.b == nullptr)))) {
    return "no matrices or no output";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
