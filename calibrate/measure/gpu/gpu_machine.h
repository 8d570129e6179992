#pragma once
// What a GPU and its driver tell of themselves, for the samples.

#include <string>

#include "calibrate/measure/machine.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::calibrate {

struct SmiAnswer {
  std::string driver;       // "NVIDIA 550.54.14"; empty: no nvidia-smi
  std::string clock_state;  // "SM at most 2520 MHz, memory at most 9001 MHz, 72.00 W at most"
};
// Of one line of `nvidia-smi --query-gpu=driver_version,clocks.max.sm,clocks.max.mem,power.limit`;
// what it does not know ("[N/A]") is left out.
SmiAnswer smi_answer(const std::string& line);

// `threads`: the host's.
Machine gpu_machine(const kernels::cuda::DeviceInfo& info, int threads);

// 12040 -> "12.4".
std::string cuda_version(int version);

}  // namespace kvlane::calibrate
