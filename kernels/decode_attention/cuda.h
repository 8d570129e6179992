#pragma once
// Decode attention on a GPU: head_dim 64, 128 or 256. Pointers of DecodeAttention are device
// pointers, kv_tokens and kv.block_table too; kv.rows at a multiple of 16. `max_kv_tokens` bounds
// kv_tokens (a longer one is cut) and decides how the sequences are split over the GPU.

#include <cstddef>

#include "kernels/common/cuda_stream.h"
#include "kernels/decode_attention/kernel.h"

namespace kvlane::kernels::cuda {

std::size_t decode_attention_workspace(const DecodeAttention& args, int max_kv_tokens);
void decode_attention(const DecodeAttention& args, int max_kv_tokens, Workspace workspace,
                      Stream stream);

}  // namespace kvlane::kernels::cuda
