#pragma once
// Does it fit: weights and working KV in GPU memory, offloaded KV in host memory. The message shows
// the sum, so that the user sees what to change.

#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_tree.h"

namespace kvlane {

// Memory that is neither weights nor KV: context, activations, workspace. The value that NVIDIA's
// aiconfigurator reserves.
inline constexpr std::int64_t kGpuReserveBytes = 3'500'000'000;

void check_memory(const YamlNode& root, const Scenario& scenario);

}  // namespace kvlane
