#pragma once
// Prefill attention, causal, of new tokens after a cached prefix: query i of a sequence stands at
// position kv_tokens - new_tokens + i and sees the keys up to its own. The KV of the new tokens is
// in the cache already. Grouped queries, optional sliding window and logit soft cap, as in
// decode_attention; a window of w sees the last w keys, its own among them.

#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels {

struct PrefillAttention {
  int sequences = 0;
  int query_heads = 0;
  const std::int32_t* new_tokens = nullptr;  // [sequences]
  const std::int32_t* kv_tokens = nullptr;   // [sequences]: cached and new
  const void* query = nullptr;  // [all new tokens, sequence by sequence][query_heads][head_dim]
  KvCache kv;
  float scale = 1;
  int window = 0;
  float soft_cap = 0;
  void* out = nullptr;  // as query
};

const char* problem(const PrefillAttention& args);

namespace ref {
void prefill_attention(const PrefillAttention& args);
}
namespace cpu {
void prefill_attention(const PrefillAttention& args, Cpu& cpu);
}

}  // namespace kvlane::kernels
