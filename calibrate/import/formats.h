#pragma once
// The formats of import.h, one a file.

#include "calibrate/import/import.h"

namespace kvlane::calibrate {

// Kernels.
ImportFormat aiconfigurator_format();
ImportFormat vidur_format();
ImportFormat llmservingsim_format();
ImportFormat frontier_format();
ImportFormat llmcompass_format();
ImportFormat l20_format();
// Engines.
ImportFormat splitwise_format();
ImportFormat tensorrt_llm_format();
ImportFormat llm_inference_bench_format();
// Links.
ImportFormat perftest_curves_format();
ImportFormat perftest_format();
ImportFormat nixlbench_format();
ImportFormat mooncake_format();
ImportFormat pcie_format();

}  // namespace kvlane::calibrate
