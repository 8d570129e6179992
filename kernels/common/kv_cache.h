#pragma once
// The KV cache of one layer as kernels see it: block-major, so that a block (all kv heads of
// `block_tokens` tokens) is one run of bytes that can be sent, and a row (K and V of one token and
// kv head) is one run that can be fetched.

#include <cstddef>
#include <cstdint>

#include "kernels/common/format.h"

namespace kvlane::kernels {

struct KvCache {
  const void* rows = nullptr;                 // [blocks][kv_heads][block_tokens][2: K, V][head_dim]
  const std::int32_t* block_table = nullptr;  // [sequences][table_width]: where its i-th block is
  int table_width = 0;
  int block_tokens = 0;
  int kv_heads = 0;
  int head_dim = 0;
  Format format = Format::bf16;

  std::size_t row_elements() const { return 2 * static_cast<std::size_t>(head_dim); }
  std::size_t row_bytes() const { return row_elements() * bytes_of(format); }
  std::size_t block_bytes() const {
    return static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(block_tokens) *
           row_bytes();
  }
  // First element of the row of a token, counted in rows from `rows`.
  std::size_t row(int sequence, int kv_head, int token) const {
    const auto block = static_cast<std::size_t>(
        block_table[static_cast<std::size_t>(sequence) * static_cast<std::size_t>(table_width) +
                    static_cast<std::size_t>(token / block_tokens)]);
    return (block * static_cast<std::size_t>(kv_heads) + static_cast<std::size_t>(kv_head)) *
               static_cast<std::size_t>(block_tokens) +
           static_cast<std::size_t>(token % block_tokens);
  }
};

// What is wrong with it for sequences of `kv_tokens[i]` tokens, or nullptr. Reads the table's
// extent, not its entries.
const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens);

// What is wrong with a selection of rows, or nullptr: index [sequences][kv_heads][index_width],
// counts [sequences][kv_heads] or null where all count. Looks at every index that counts.
const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens,
                    const std::int32_t* index, const std::int32_t* index_count, int index_width);

}  // namespace kvlane::kernels
