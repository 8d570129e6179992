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
  // Where the row of a token lies, in rows from `rows`.
  std::size_t row(int sequence, int kv_head, int token) const;
};

// The same for many tokens of one sequence and kv head.
class KvRows {
 public:
  KvRows(const KvCache& cache, std::size_t sequence, std::size_t kv_head)
      : table_(cache.block_table + sequence * static_cast<std::size_t>(cache.table_width)),
        kv_heads_(static_cast<std::size_t>(cache.kv_heads)),
        kv_head_(kv_head),
        block_tokens_(static_cast<unsigned>(cache.block_tokens)),
        shift_(__builtin_ctz(block_tokens_)),
        shifts_((block_tokens_ & (block_tokens_ - 1)) == 0) {}
  std::size_t operator()(std::int32_t token) const {
    // By a shift where the size of a block is a power of two, as a rule.
    const auto at = static_cast<unsigned>(token);
    const unsigned block = shifts_ ? at >> shift_ : at / block_tokens_;
    return (static_cast<std::size_t>(table_[block]) * kv_heads_ + kv_head_) * block_tokens_ +
           (at - block * block_tokens_);
  }

 private:
  const std::int32_t* table_;
  std::size_t kv_heads_, kv_head_;
  unsigned block_tokens_;
  int shift_;
  bool shifts_;
};

inline std::size_t KvCache::row(int sequence, int kv_head, int token) const {
  return KvRows(*this, static_cast<std::size_t>(sequence),
                static_cast<std::size_t>(kv_head))(token);
}

// What is wrong with it for sequences of `kv_tokens[i]` tokens, or nullptr. Reads the table's
// extent, not its entries.
const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens);

// What is wrong with a selection of rows, or nullptr: index [sequences][kv_heads][index_width],
// counts [sequences][kv_heads] or null where all count. Looks at every index that counts.
const char* problem(const KvCache& cache, int sequences, const std::int32_t* kv_tokens,
                    const std::int32_t* index, const std::int32_t* index_count, int index_width);

}  // namespace kvlane::kernels
