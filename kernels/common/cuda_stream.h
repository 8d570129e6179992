#pragma once
// What every cuda.h shares. No CUDA headers here: callers need none.
//
// The rule of the CUDA backends: they take the argument struct of kernel.h, and every pointer in it
// is an address that the GPU can read or write (device memory, or mapped pinned memory where
// cuda.h says so), arrays that kernel.h calls "on the host" too. Sizes are read from the struct's
// integers only; where a launch needs a bound of what lies in device memory (the longest sequence),
// cuda.h has an argument for it. So a call reads nothing back, waits for nothing and can be
// captured in a graph. What lies in device memory is checked by the kernel where a bad value could
// leave its buffers (it is clamped); problem() of kernel.h checks it all where the caller has it on
// the host.
//
// Calls return once the work is queued; errors of the queueing throw std::runtime_error, bad
// arguments std::invalid_argument.

#include <cstddef>

namespace kvlane::kernels::cuda {

// A cudaStream_t; null is the default stream.
struct StreamHandle;
using Stream = StreamHandle*;

// Device memory for intermediate results, 256-byte aligned, of the size that the kernel's
// NAME_workspace() returns. Calls that can run at the same time need one each. Contents: anything.
struct Workspace {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

}  // namespace kvlane::kernels::cuda
