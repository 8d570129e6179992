#pragma once
// A hardware file of a GPU in the layout of those that ship: sections with the formulas, every
// number with its unit, source and text.

#include <string>

#include "sim/gpu/gpu_spec.h"

namespace kvlane::calibrate {

// read_gpu (sim/scenario/gpu_file.h) of the text is `gpu` again. A number without a source, or with
// an empty text, is a std::logic_error.
std::string hardware_text(const GpuSpec& gpu);

}  // namespace kvlane::calibrate
