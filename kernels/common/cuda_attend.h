#pragma once
// Attention of one query a sequence over tokens of a paged KV cache, on the GPU: what decode and
// sparse attention share.

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels::cuda {

struct Attend {
  int sequences = 0, query_heads = 0;
  const void* query = nullptr;
  KvCache kv;
  const std::int32_t* kv_tokens = nullptr;
  int max_tokens = 0;  // of kv_tokens or of the index, an upper bound
  int window = 0;      // 0: all
  // Null: all tokens of the window. Otherwise [sequences][kv_heads][index_width].
  const std::int32_t* index = nullptr;
  const std::int32_t* index_count = nullptr;
  int index_width = 0;
  bool indexed = false;
  float scale = 1, soft_cap = 0;
  void* out = nullptr;
};

const char* problem(const Attend& args);  // of its shape
std::size_t attend_workspace(const Attend& args);
void attend(const Attend& args, Workspace workspace, Stream stream);

// head_dim 64, 128 or 256; heads 4 or 8.
Budget attend_budget(int head_dim, int heads);

}  // namespace kvlane::kernels::cuda
