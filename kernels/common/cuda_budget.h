#pragma once
// What a kernel asks of a multiprocessor, stated beside the kernel and held against the occupancy
// calculator of CUDA (tests/kernels/cuda_occupancy.cpp). Registers are not in it: __launch_bounds__
// with `blocks` makes the compiler keep to what so many blocks leave, and spills fail the build.

#include <cstddef>

namespace kvlane::kernels::cuda {

struct Budget {
  int threads = 0;               // of a block
  int blocks = 0;                // resident, as __launch_bounds__ says
  std::size_t shared_bytes = 0;  // of a block, static and dynamic
  int bytes_in_flight = 0;       // of a thread: asked for before the first of them is used
};

}  // namespace kvlane::kernels::cuda
