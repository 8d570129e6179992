#pragma once
// The base of a fit where no hardware file is about the machine: a CPU or a GPU from its own
// samples.

#include <optional>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Peaks and bandwidths as the samples reach them, sizes as the machine told them, and first guesses
// of the rest with the source `assumed`. None where the samples are not own ones, or lack a
// streaming read, a copy or a GEMM; of a GPU, copies between host and device both ways.
std::optional<GpuSpec> base_of_own(const std::vector<Sample>& samples);

// What follows from fitted kernels, in the file that the base became: launches and elementwise
// kernels from `add`, copies from `copy`, the host's gathers from single rows of `kv_gather` (of a
// GPU: those that the host packs).
void derive_from_fits(GpuSpec& gpu, const std::vector<Sample>& samples);

}  // namespace kvlane::calibrate
