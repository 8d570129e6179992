#include "calibrate/fit/ceilings.h"

#include <algorithm>

#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {

Ceilings ceilings_of(const std::vector<Sample>& samples) {
  Ceilings best;
  for (const Sample& sample : samples) {
    const auto work = kernel_work(sample);
    if (!work || sample.set_aside == kExtrapolated) continue;
    if (sample.kernel == "read") best.read = std::max(best.read, work->bytes / sample.seconds);
    if (sample.kernel == "copy") best.copy = std::max(best.copy, work->bytes / sample.seconds);
    if (sample.kernel == "gemm") best.flops = std::max(best.flops, work->flops / sample.seconds);
  }
  return best;
}

}  // namespace kvlane::calibrate
