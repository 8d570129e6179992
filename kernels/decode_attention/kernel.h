#pragma once
// Decode attention: one new query a sequence over its whole KV. Grouped queries, optional sliding
// window and logit soft cap (cap * tanh(x / cap), Gemma 2, arXiv 2408.00118 section 2).
// A NaN or infinite logit makes the output of that query head NaN. No tokens: the output is 0.

#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels {

struct DecodeAttention {
  int sequences = 0;
  int query_heads = 0;                      // a multiple of kv.kv_heads
  const void* query = nullptr;              // [sequences][query_heads][head_dim], kv.format
  KvCache kv;                               // holds the new token's row too
  const std::int32_t* kv_tokens = nullptr;  // [sequences], on the host
  float scale = 1;                          // of q.k, 1/sqrt(head_dim) as a rule
  int window = 0;                           // attend to the last `window` tokens; 0: to all
  float soft_cap = 0;                       // 0: none
  void* out = nullptr;                      // [sequences][query_heads][head_dim], kv.format
};

const char* problem(const DecodeAttention& args);

namespace ref {
void decode_attention(const DecodeAttention& args);  // in double
}
namespace cpu {
void decode_attention(const DecodeAttention& args, Cpu& cpu);
}

}  // namespace kvlane::kernels
