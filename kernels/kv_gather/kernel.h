#pragma once
// Selected rows of the KV cache copied together (gather), and back to their places (scatter).
// Copies bytes: formats, NaN and all stay as they are.

#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels {

struct KvGather {
  int sequences = 0;
  KvCache kv;
  const std::int32_t* kv_tokens = nullptr;    // [sequences]
  const std::int32_t* index = nullptr;        // [sequences][kv_heads][index_width]
  const std::int32_t* index_count = nullptr;  // [sequences][kv_heads]; null: all
  int index_width = 0;
  void* packed = nullptr;  // [sequences][kv_heads][index_width][2][head_dim]; rows past the count
                           // are left alone
};

const char* problem(const KvGather& args);

namespace ref {
void kv_gather(const KvGather& args);
// Writes through kv.rows, which must be writable memory. Where an index names a token twice, one
// of the two rows lands.
void kv_scatter(const KvGather& args);
}  // namespace ref
namespace cpu {
void kv_gather(const KvGather& args, Cpu& cpu);
void kv_scatter(const KvGather& args, Cpu& cpu);
}  // namespace cpu

}  // namespace kvlane::kernels
