#pragma once
// What a hardware file says about a measured shape, and where its formulas claim to hold.

#include <optional>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Seconds; none for what no formula of one GPU covers (links, whole serving steps, ranks or data
// types without constants). For many samples of one GPU hold a SampleCost (sim/gpu/sample_cost.h),
// which this makes anew.
std::optional<double> predict(const GpuSpec& gpu, const Sample& sample);

// Shapes that the fits are made on and that their errors are about; true for other kernels.
//   gemm               n and k at least 2048, m at most 16384; not faster than DRAM could move the
//                      operands, which only a warm L2 does
//   prefill_attention  at least 8 query heads and at most 8 kv heads a prompt, at least 64 tokens
//   prefix_attention   at least 16 new tokens after at least 1 cached one
// Own samples (sample.h) always: they were taken cold, over the shapes that they shall speak about.
// What a cache of decode_attention in L2 does to a measurement is beyond_l2's matter.
bool in_domain(const GpuSpec& gpu, const Sample& sample);

// Decode attention whose KV is more than 1.2 times the L2 cache: smaller sets stay there from one
// repetition of a benchmark to the next, which in serving the other layers prevent. True for other
// kernels, and for own samples.
bool beyond_l2(const GpuSpec& gpu, const Sample& sample);

}  // namespace kvlane::calibrate
