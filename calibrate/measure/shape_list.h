#pragma once
// Shapes to measure as text, for machines that cannot read the models. A line each: kernel, dtype,
// sizes as sample_dimensions and, where they apply, variant and what keeps it out of fits:
//   gemm bf16 8 4096 14336
//   kv_gather bf16 1 1024 204 1 8 128 | packed on the host, one copy | another way to gather
// '#' begins a comment. The standard library only.

#include <string>
#include <string_view>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Kernel after kernel as they come; std::logic_error for what the lines cannot say.
std::string shapes_text(const std::vector<Sample>& shapes);
// std::runtime_error with `name` and the line.
std::vector<Sample> parse_shapes(std::string_view text, const std::string& name);

}  // namespace kvlane::calibrate
