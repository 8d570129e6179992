#pragma once
// What a kernel of a shape computes and moves, whoever runs it, and its time by a KernelCost. Needs
// the standard library only, as all that tests/device_check builds.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane {

struct KernelCost;  // gpu_spec.h

struct KernelWork {
  double flops = 0;  // operations
  double bytes = 0;  // that memory moves at least
  // Pieces that each cost something however short they are: rows, runs; of HACK's attention what a
  // CPU takes apart.
  double items = 0;
};

// `shape` as sample_dimensions(kernel). None for links, collectives and whole serving steps.
std::optional<KernelWork> kernel_work(std::string_view kernel,
                                      const std::vector<std::int64_t>& shape,
                                      double element_bytes = 2);
std::optional<KernelWork> kernel_work(const Sample& sample);

double seconds_of(const KernelCost& cost, const KernelWork& work);

// Kernels whose time has this form in a hardware file; the others have formulas of their own
// (gpu_spec.h).
const std::vector<std::string>& costed_kernels();

}  // namespace kvlane
