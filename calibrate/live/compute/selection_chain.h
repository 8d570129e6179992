#pragma once
// Selection of a layer's rows by real kernels, each reading what the one before it wrote: codes or
// partial projections of the queries, scores of all keys, the best fifth of them a (sequence, kv
// head) (the share of the published settings), split by a mask of which half of the blocks are
// local. Keys are synthetic.

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/measure/backend.h"
#include "sim/gpu/cost_model.h"

namespace kvlane::live {

// Where a chain leaves its answer, in the device's memory.
struct SelectionOutput {
  std::int64_t sequences = 0, kv_heads = 0;
  std::int64_t kv_tokens = 0;                 // of a sequence
  std::int64_t chosen = 0;                    // rows a (sequence, kv head)
  const std::int32_t* index = nullptr;        // [sequences][kv_heads][chosen], ascending
  const std::int32_t* split = nullptr;        // likewise: local ones first, then remote ones
  const std::int32_t* local_count = nullptr;  // [sequences][kv_heads]
};

// An answer in host memory.
struct Selection {
  std::int64_t sequences = 0, kv_heads = 0, kv_tokens = 0, chosen = 0;
  std::vector<std::int32_t> index, split, local_count;
};

struct SelectionChain {
  std::vector<calibrate::Call> calls;
  SelectionOutput output;
};

// Throws NoRoom; std::runtime_error where the device lacks a kernel.
SelectionChain selection_chain(const Work& work, const CostModel& model,
                               calibrate::Backend& backend, const std::string& gemm_dtype);

}  // namespace kvlane::live
