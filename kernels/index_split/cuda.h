#pragma once
// The split of a selection on a GPU. Pointers of IndexSplit are device pointers. What only the
// device sees and problem() of kernel.h would refuse has a defined result here: counts are clamped
// to [0, index_width], a token outside the mask is remote, a mask value that is not 1 is remote.

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/index_split/kernel.h"

namespace kvlane::kernels::cuda {

void index_split(const IndexSplit& args, Stream stream);
Budget index_split_budget();

}  // namespace kvlane::kernels::cuda
