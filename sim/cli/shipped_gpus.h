#pragma once
// The GPUs of scenarios/hardware.

#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"

namespace kvlane::cli {

std::vector<GpuSpec> shipped_gpus(const std::string& preset_dir);

}  // namespace kvlane::cli
