#pragma once
// The k largest scores of each row on a GPU. Pointers of TopK are device pointers; n[row] is taken
// as clamped to [0, width].

#include <cstddef>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/topk/kernel.h"

namespace kvlane::kernels::cuda {

// Of the device in use: few long rows are split over its multiprocessors.
std::size_t topk_workspace(const TopK& args);
void topk(const TopK& args, Workspace workspace, Stream stream);
Budget topk_budget();

}  // namespace kvlane::kernels::cuda
