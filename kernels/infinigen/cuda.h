#pragma once
// InfiniGen's projection and scores on a GPU. Pointers are device pointers, `take` too. What only
// the device sees: kept channels are clamped to the head, kv_tokens[i] to [0, width].

#include <cstddef>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/infinigen/kernel.h"

namespace kvlane::kernels::cuda {

void infinigen_project(const InfinigenProject& args, Stream stream);

// At most 256 kept channels and 1024 query heads a kv head. The workspace holds the logits: 4 bytes
// a query head and token.
std::size_t infinigen_workspace(const InfinigenScore& args);
void infinigen_score(const InfinigenScore& args, Workspace workspace, Stream stream);

Budget infinigen_project_budget();
// Of the first of the two score kernels, for a group of `heads` query heads.
Budget infinigen_score_budget(int heads);

}  // namespace kvlane::kernels::cuda
