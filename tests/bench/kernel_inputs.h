#pragma once
// What the kernel benchmarks run on: a large KV cache and selections of its rows.

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::bench {

class Memory {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  explicit Memory(std::size_t bytes)
      : memory_(std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage)),
        bytes_(bytes) {
    if (!memory_) throw std::bad_alloc();
    // As a KV pool would be: where the kernel gives none, small pages serve both sides alike.
    madvise(memory_.get(), bytes, MADV_HUGEPAGE);
  }
  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_;
};

// Small bf16 numbers of both signs, different in every place.
inline void fill_bf16(const Memory& memory, kernels::Cpu& cpu) {
  constexpr std::size_t kPart = 1 << 19;
  const std::size_t n = memory.bytes() / 2;
  auto* to = static_cast<std::uint16_t*>(memory.data());
  cpu.parallel_for((n + kPart - 1) / kPart, [&](std::size_t part, int) {
    std::uint64_t state = part * 0x9e3779b97f4a7c15u + 1;
    for (std::size_t i = part * kPart; i < std::min(n, (part + 1) * kPart); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      // Sign, an exponent of 2^-4 ... 2^-1, seven bits of fraction.
      to[i] = static_cast<std::uint16_t>((state >> 63) << 15 | (123 + (state >> 60 & 3)) << 7 |
                                         (state >> 40 & 0x7f));
    }
  });
}

// Sequences of Llama-3.1-8B's shape: 8 kv heads of 128, bf16, blocks of 16 tokens; 512-byte rows.
struct LargeKv {
  static constexpr int kHeads = 8, kQueryHeads = 32, kWidth = 128, kBlock = 16;

  LargeKv(std::size_t bytes, int sequences, kernels::Cpu& cpu)
      : rows(bytes / (static_cast<std::size_t>(sequences) * kBlock * kHeads * 512) *
             (static_cast<std::size_t>(sequences) * kBlock * kHeads * 512)) {
    fill_bf16(rows, cpu);
    cache.kv_heads = kHeads;
    cache.head_dim = kWidth;
    cache.block_tokens = kBlock;
    cache.rows = rows.data();
    const auto blocks = static_cast<std::int32_t>(rows.bytes() / cache.block_bytes());
    cache.table_width = blocks / sequences;
    for (std::int32_t i = 0; i < blocks; ++i) table.push_back(i);
    cache.block_table = table.data();
    tokens.assign(static_cast<std::size_t>(sequences), cache.table_width * kBlock);
  }

  Memory rows;
  kernels::KvCache cache;
  std::vector<std::int32_t> table, tokens;
};

// Every other run of `run` tokens, in all sequences and kv heads: half the rows.
struct HalfOfRows {
  HalfOfRows(const LargeKv& kv, int run) {
    std::vector<std::int32_t> row;
    for (int first = 0; first + run <= kv.tokens[0]; first += 2 * run) {
      for (int i = 0; i < run; ++i) row.push_back(first + i);
    }
    width = static_cast<int>(row.size());
    for (std::size_t pair = 0; pair < kv.tokens.size() * LargeKv::kHeads; ++pair) {
      index.insert(index.end(), row.begin(), row.end());
    }
  }
  std::vector<std::int32_t> index;
  int width = 0;
};

}  // namespace kvlane::bench
