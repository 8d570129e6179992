#pragma once
// HACK on a GPU of compute capability 8.0 or newer. Pointers of HackAppend and HackAttention are
// device pointers, first, tokens and kv_tokens too; keys, values, query and out at multiples of
// 16. `max_new_tokens` and `max_kv_tokens` bound tokens and kv_tokens (what is longer is cut; at
// shape.capacity, too).

#include <cstddef>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/hack/kernel.h"

namespace kvlane::kernels::cuda {

// Writes the bytes that the other backends write.
void hack_append(const HackAppend& args, int max_new_tokens, Stream stream);

std::size_t hack_attention_workspace(const HackAttention& args, int max_kv_tokens);
void hack_attention(const HackAttention& args, int max_kv_tokens, Workspace workspace,
                    Stream stream);
// Codes become values in registers and meet the query and the probabilities on tensor cores in the
// 16-bit format, to which both are rounded: what HACK is compared with. Same workspace. In fp16 a
// dequantised value beyond 65504 is infinite.
void hack_dequantise_attention(const HackAttention& args, int max_kv_tokens, Workspace workspace,
                               Stream stream);

// Of the attention kernels. Bits, partition and head dimension decide it.
Budget hack_budget(const HackShape& shape);

}  // namespace kvlane::kernels::cuda
