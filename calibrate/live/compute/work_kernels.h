#pragma once
// Which kernels a piece of work is made of, and their shapes: the cut of the cost model
// (sim/gpu/layer_cost.cpp), as calls instead of times, so that what is simulated is what runs.
//
// Where the two differ:
//   * sampling is the arg max of the logits;
//   * an all-reduce adds the activations of one peer: a rank's kernels run, its peers' do not;
//   * KV of 4 and 8 bits is written by HACK's kernel, as that of 2, and read back by a pass over
//     the same bytes;
//   * sequences of a batch are as long as their mean.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/gpu/cost_model.h"
#include "sim/gpu/sample.h"

namespace kvlane::live {

// A call of a kernel, `times` in a row; `shape.kernel`, `.shape` and `.dtype` are set.
struct KernelStep {
  Sample shape;
  std::int64_t times = 1;
};

// One rank's, in order. `gemm_dtype`: what the device multiplies in ("fp32", "bf16"). Empty for
// work without kernels: host_step, gather_host, select (selection_chain.h), nothing to do.
// Throws std::runtime_error for a layer that no kernel computes (linear attention).
std::vector<KernelStep> kernels_of(const Work& work, const CostModel& model,
                                   const std::string& gemm_dtype);

// Heads of one rank as kernels take them: query heads are a multiple of kv heads.
struct RankHeads {
  std::int64_t query = 0, kv = 0;
};
RankHeads rank_heads(const LayerSpec& layer, int tp);

// "prefill_layer", "select", ...
// By layer: the first one of equal shape.
std::vector<std::size_t> like_layers(const ModelSpec& model);

const char* to_string(WorkKind kind);

}  // namespace kvlane::live
