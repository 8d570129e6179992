#pragma once
// Bad arguments of a kernel are errors, never undefined: each kernel.h has problem(args), which
// names what is wrong; every backend asks it first.

#include <stdexcept>

namespace kvlane::kernels {

// Throws std::invalid_argument with the problem, if there is one.
inline void require(const char* problem) {
  if (problem != nullptr) throw std::invalid_argument(problem);
}

}  // namespace kvlane::kernels
