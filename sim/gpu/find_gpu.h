#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "sim/gpu/gpu_spec.h"

namespace kvlane {

// Null where none has the name.
inline const GpuSpec* find_gpu(const std::vector<GpuSpec>& gpus, std::string_view name) {
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const GpuSpec& gpu) { return gpu.name == name; });
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace kvlane
