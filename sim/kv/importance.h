#pragma once
// Importance profile I[layer][block]: mean frequency with which rows of the block are selected,
// measured offline on other texts (facts.md 1.1).

#include <cstdint>
#include <vector>

namespace kvlane {

struct ImportanceProfile {
  std::int64_t blocks = 0;
  std::vector<std::vector<float>> weight;  // [layer][block], empty for layers that do not select
};

}  // namespace kvlane
