#pragma once
// What one value alone cannot say: heads and GPUs that divide, KV that fits, peers that reach each
// other, options that contradict each other. Each error stands at the value that has to change.

#include "sim/scenario/scenario.h"
#include "sim/scenario/yaml_tree.h"

namespace kvlane {

// Beyond these a run needs more memory or hours than anyone means to spend.
inline constexpr std::int64_t kMaxRequests = 10'000;    // prompts of all shapes
inline constexpr std::int64_t kMaxAllInstances = 4096;  // of all groups

// `root` is the tree that the scenario was read from, for places. Throws InputError; what is legal
// but should be known goes to scenario.warnings.
void check_scenario(const YamlNode& root, Scenario& scenario);

}  // namespace kvlane
