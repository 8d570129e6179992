#pragma once
// Sparse attention on a GPU: head_dim 64, 128 or 256. Pointers of SparseAttention are device
// pointers, kv_tokens, index and index_count too; kv.rows at a multiple of 16. An index that the
// sequence does not have reads its nearest token instead; problem() finds it where the index is on
// the host.

#include <cstddef>

#include "kernels/common/cuda_stream.h"
#include "kernels/sparse_attention/kernel.h"

namespace kvlane::kernels::cuda {

std::size_t sparse_attention_workspace(const SparseAttention& args);
void sparse_attention(const SparseAttention& args, Workspace workspace, Stream stream);

}  // namespace kvlane::kernels::cuda
