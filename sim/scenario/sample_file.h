#pragma once
// Samples as JSON lines, one object a line:
//   {"machine": "H100-SXM", "source": "aiconfigurator 095f58a", "licence": "Apache-2.0",
//    "variant": "vllm-0.24.0", "kernel": "gemm", "shape": {"m": 1, "n": 256, "k": 256},
//    "dtype": "bf16", "seconds": 2.95556e-06}
// and, where they apply, "model", "set_aside" and how it was taken: "seconds_p25", "seconds_p75",
// "repetitions", "commit", "driver", "clock_state", "problem", "load_average_1min", "threads",
// "multiprocessors" (of a GPU), "memory_bytes", "cache_bytes". Every key but these is required;
// unknown keys, kernels and dimensions, sizes below 1 (cached_tokens below 0), and times that are
// not finite and above zero are errors.

#include <string>
#include <string_view>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane {

// InputError with file, line and column.
std::vector<Sample> parse_samples(std::string_view text, const std::string& name);

// One line with its newline. Seconds have as many digits as it takes to read the same number.
std::string sample_line(const Sample& sample);

}  // namespace kvlane
