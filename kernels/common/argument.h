#pragma once
// Bad arguments of a kernel are errors, never undefined: each kernel.h has problem(args), which
// names what is wrong; every backend asks it first.

#include <stdexcept>

namespace kvlane::kernels {

// Throws std::invalid_argument with the problem, if there is one.
inline void require(const char* problem) {
  if (problem != nullptr) throw std::invalid_argument(problem);
}

// Query heads share kv heads in groups of equal size.
inline const char* problem_of_heads(int query_heads, int kv_heads) {
  return kv_heads <= 0 || query_heads <= 0 || query_heads % kv_heads != 0
             ? "query heads that are not a multiple of the kv heads"
             : nullptr;
}

inline const char* problem_of_soft_cap(float soft_cap) {
  return soft_cap >= 0 ? nullptr : "a soft cap that is not a number of 0 or more";
}

}  // namespace kvlane::kernels
