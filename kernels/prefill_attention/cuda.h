#pragma once
// Prefill attention on a GPU: head_dim 64, 128 or 256. Pointers of PrefillAttention are device
// pointers, new_tokens, kv_tokens and kv.block_table too; query, out and kv.rows at multiples of
// 16. `max_new_tokens` and `max_kv_tokens` bound new_tokens and kv_tokens (what is longer is cut)
// and decide how the work is split over the GPU. bf16 and fp16 need compute capability 8.0.
//
// Weights are rounded to the 16-bit format before they meet the values, as the tensor cores want
// them; their sum is not.

#include <cstddef>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/prefill_attention/kernel.h"

namespace kvlane::kernels::cuda {

std::size_t prefill_attention_workspace(const PrefillAttention& args, int max_new_tokens,
                                        int max_kv_tokens);
void prefill_attention(const PrefillAttention& args, int max_new_tokens, int max_kv_tokens,
                       Workspace workspace, Stream stream);

Budget prefill_budget(int head_dim, Format format);

}  // namespace kvlane::kernels::cuda
