#pragma once
// Decode attention over selected rows only: for each sequence and kv head the tokens that an index
// names, in any order. Runs of neighbouring tokens are read as runs. Otherwise as decode attention;
// an empty selection gives 0.

#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels {

struct SparseAttention {
  int sequences = 0;
  int query_heads = 0;
  const void* query = nullptr;  // [sequences][query_heads][head_dim], kv.format
  KvCache kv;
  const std::int32_t* kv_tokens = nullptr;    // [sequences]; every index is below it
  const std::int32_t* index = nullptr;        // [sequences][kv_heads][index_width]: tokens
  const std::int32_t* index_count = nullptr;  // [sequences][kv_heads]: how many count; null: all
  int index_width = 0;
  float scale = 1;
  float soft_cap = 0;   // 0: none
  void* out = nullptr;  // [sequences][query_heads][head_dim], kv.format
};

// Looks at every index: a token that the sequence does not have is an error.
const char* problem(const SparseAttention& args);

namespace ref {
void sparse_attention(const SparseAttention& args);
}
namespace cpu {
void sparse_attention(const SparseAttention& args, Cpu& cpu);
}

}  // namespace kvlane::kernels
