#pragma once
// A KvCache in device code: where the row of a token is, without a division.

#include "kernels/common/device.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels::cuda {

// n / divisor for 0 <= n < 2^31 as one 64-bit product: with 2^l >= divisor and
// magic = ceil(2^(31+l) / divisor), n * (magic * divisor - 2^(31+l)) < 2^(31+l)
// (Granlund, Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994).
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(int divisor) : divisor_(divisor) {
    int l = 0;
    while ((1ll << l) < divisor) ++l;
    shift_ = 31 + l;
    magic_ = static_cast<unsigned>(((1ull << shift_) + static_cast<unsigned>(divisor) - 1) /
                                   static_cast<unsigned>(divisor));
  }
  __device__ __forceinline__ int quotient(int n) const {
    return static_cast<int>((static_cast<unsigned long long>(static_cast<unsigned>(n)) * magic_) >>
                            shift_);
  }
  __device__ __forceinline__ int divisor() const { return divisor_; }

 private:
  int divisor_ = 1, shift_ = 31;
  unsigned magic_ = 1u << 31;
};

struct DeviceKv {
  DeviceKv() = default;
  explicit DeviceKv(const KvCache& cache)
      : rows(cache.rows),
        block_table(cache.block_table),
        table_width(cache.table_width),
        kv_heads(cache.kv_heads),
        block_tokens(cache.block_tokens) {}

  const void* rows = nullptr;
  const std::int32_t* block_table = nullptr;
  int table_width = 0, kv_heads = 0;
  FastDivide block_tokens;

  // As KvCache::row, for a token that the table has.
  __device__ __forceinline__ std::size_t row(int sequence, int kv_head, int token) const {
    const int at = block_tokens.quotient(token), size = block_tokens.divisor();
    const auto block = static_cast<std::size_t>(
        __ldg(block_table +
              static_cast<std::size_t>(sequence) * static_cast<unsigned>(table_width) + at));
    return (block * static_cast<unsigned>(kv_heads) + static_cast<unsigned>(kv_head)) *
               static_cast<unsigned>(size) +
           static_cast<unsigned>(token - at * size);
  }
};

// What is wrong with the shape of a cache whose arrays are on the device, or nullptr.
inline const char* shape_problem(const KvCache& cache) {
  if (cache.kv_heads <= 0) return "a KV cache without kv heads";
  if (cache.block_tokens <= 0) return "a KV cache with blocks of no tokens";
  if (cache.table_width < 0) return "a block table of negative width";
  if (cache.rows == nullptr && cache.table_width > 0) return "a KV cache without rows";
  if (cache.block_table == nullptr && cache.table_width > 0) return "no block table";
  if (reinterpret_cast<std::uintptr_t>(cache.rows) % 16 != 0) {
    return "KV rows at an address that is not a multiple of 16";
  }
  if (static_cast<long long>(cache.table_width) * cache.block_tokens > 0x7fffffffll) {
    return "a block table of more than 2^31 tokens";
  }
  return nullptr;
}

}  // namespace kvlane::kernels::cuda
