#pragma once
// What the samples of a machine say of each kernel: its best rates. The standard library only.

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit/ceilings.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

struct KernelRates {
  std::string kernel, variant;
  std::int64_t measured = 0, extrapolated = 0;  // shapes
  double flops = 0, bytes = 0;                  // a second, the best
  double spread = 0;                            // median of (p75 - p25) / median
  bool link = false;                            // between host and device: bytes as they cross

  // The kernel and, where there are several, which way: "kv_gather, zero copy"; of copies that
  // alone: "memory copy, one thread" of "memory copy, one thread: kvlane".
  std::string name() const;
};

// A row a kernel and variant, in the order of the samples.
std::vector<KernelRates> kernel_rates(const std::vector<Sample>& samples);

// What a kernel moves it reads for the most part; a copy has a ceiling of its own, a
// link none (0).
double memory_ceiling(const KernelRates& rates, const Ceilings& ceilings);

}  // namespace kvlane::calibrate
