#include "kernels/common/kv_cache.h"

namespace kvlane::kernels {

const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens) {
  if (cache.kv_heads <= 0) return "a KV cache without kv heads";
  if (cache.head_dim <= 0 || cache.head_dim % 16 != 0) {
    return "a head dimension that is not a positive multiple of 16";
  }
  if (cache.block_tokens <= 0) return "a KV cache with blocks of no tokens";
  if (sequences < 0) return "a negative number of sequences";
  for (int i = 0; i < sequences; ++i) {
    if (kv_tokens[i] < 0) return "a sequence of negative length";
    if (static_cast<std::int64_t>(kv_tokens[i]) >
        static_cast<std::int64_t>(cache.table_width) * cache.block_tokens) {
      return "a sequence that is longer than its row of the block table";
    }
    if (kv_tokens[i] > 0 && (cache.rows == nullptr || cache.block_table == nullptr)) {
      return "a KV cache without rows or block table";
    }
  }
  return nullptr;
}

const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens,
                    const std::int32_t* index, const std::int32_t* index_count, int index_width) {
  if (index_width < 0) return "an index of negative width";
  if (index_width > 0 && sequences > 0 && index == nullptr) return "no index";
  for (int s = 0; s < sequences; ++s) {
    for (int h = 0; h < cache.kv_heads; ++h) {
      const int row = s * cache.kv_heads + h;
      const int count = index_count == nullptr ? index_width : index_count[row];
      if (count < 0 || count > index_width) return "more selected rows than the index is wide";
      const std::int32_t* token =
          index + static_cast<std::size_t>(row) * static_cast<std::size_t>(index_width);
      bool outside = false;
      for (int i = 0; i < count; ++i) outside |= token[i] < 0 || token[i] >= kv_tokens[s];
      if (outside) return "a selected row that the sequence does not have";
    }
  }
  return nullptr;
}

}  // namespace kvlane::kernels
