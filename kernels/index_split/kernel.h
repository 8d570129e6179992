#pragma once
// Splits a selection by the KV mask (SmartGen, arXiv 2607.28150, Algorithm 1): the rows that are
// local come first, those that are remote follow without a gap, both in the order of the index.

#include <cstdint>

#include "kernels/common/cpu.h"

namespace kvlane::kernels {

struct IndexSplit {
  int sequences = 0;
  int kv_heads = 0;
  int index_width = 0;
  int block_tokens = 0;
  int blocks = 0;                             // a sequence, of the mask
  const std::int32_t* index = nullptr;        // [sequences][kv_heads][index_width]: tokens
  const std::int32_t* index_count = nullptr;  // [sequences][kv_heads]; null: all
  const std::uint8_t* block_mask = nullptr;   // [sequences][blocks]: 1 local, 2 remote
  const std::uint64_t* row_bits = nullptr;    // [sequences][kv_heads][(blocks * block_tokens + 63)
                                              // / 64]: bit t % 64 of word t / 64 set: row t was
                                              // fetched, it is local; null: none was
  std::int32_t* split = nullptr;        // [sequences][kv_heads][index_width]; past the count -1
  std::int32_t* local_count = nullptr;  // [sequences][kv_heads]
};

// Looks at the index and the mask: a token outside the mask, or a mask value that is neither 1 nor
// 2, is an error.
const char* problem(const IndexSplit& args);

namespace ref {
void index_split(const IndexSplit& args);
}
namespace cpu {
void index_split(const IndexSplit& args, Cpu& cpu);
}

}  // namespace kvlane::kernels
