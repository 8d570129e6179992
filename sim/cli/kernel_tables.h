#pragma once
// `run --table SAMPLES.jsonl`: measured kernels of the scenario's GPUs instead of the formulas,
// inside what was measured (sim/gpu/grid_table.h).

#include <string>
#include <vector>

#include "sim/run/world.h"
#include "sim/scenario/input_files.h"

namespace kvlane::cli {

// By GPU name, for those that the files have samples of. `variants`: where a kernel was measured
// in several, the ones that contain one of these texts. Throws InputError for a file without any of
// the scenario's GPUs, and for a kernel that is left with several variants.
KernelTables read_tables(const std::vector<std::string>& paths,
                         const std::vector<std::string>& variants, const Scenario& scenario,
                         InputFiles& files);

}  // namespace kvlane::cli
