#pragma once
// What a machine can do at most, by its own samples.

#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// The best rates among samples of one machine; 0 where none tells.
struct Ceilings {
  double read = 0;   // bytes/s of a streaming read
  double copy = 0;   // bytes/s read and written
  double flops = 0;  // FLOP/s of the best GEMM
};
Ceilings ceilings_of(const std::vector<Sample>& samples);

}  // namespace kvlane::calibrate
