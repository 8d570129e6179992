#pragma once
// Rows that say something about the measurement and not about the kernel in service. They stay
// among the samples, with the rule's name in `set_aside`, and no fit or table takes them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Counts by rule. `known`: GPUs whose L2 and memory bandwidth the rules need, by `name`.
//   duplicate    kernels: machine, source, variant, kernel, dtype and shape a second time; the
//                first stays. Repeats of whole-engine runs all stay.
//   copied       a kernel of a machine whose every row has another machine's shape and seconds, to
//                the digit, in the same source: a copy, no measurement
//   l2_resident  decode attention over at most 1.2 x L2 (in service, other layers evict it); GEMM
//                or decode attention that moves its operands faster than the datasheet's DRAM
//   throttled    GEMM that takes over 1.5 x the time of the next larger m of its n and k: the
//                clocks were not the same
// Rows that have a rule already keep it.
std::map<std::string, std::int64_t> set_artefacts_aside(std::vector<Sample>& samples,
                                                        const std::vector<GpuSpec>& known);

// Machines among decode attention and GEMMs that are not `known`: l2_resident was not asked there.
std::vector<std::string> machines_unchecked(const std::vector<Sample>& samples,
                                            const std::vector<GpuSpec>& known);

// The same rules as text, for --help.
const char* artefact_rules();

}  // namespace kvlane::calibrate
