#pragma once
// What tests of kernels share: fresh random tensors each run (the seed is printed when a check
// fails; KVLANE_SEED=N repeats it), buffers of exactly the promised size that are poisoned before
// use, and errors relative to the size of the reference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/format.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::kernels::testing {

inline std::size_t size(int n) { return static_cast<std::size_t>(n); }

// The seed of this run: KVLANE_SEED or a fresh one.
inline std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("KVLANE_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10)
                           : static_cast<std::uint64_t>(std::random_device{}());
  }();
  return seed;
}

class Random {
 public:
  explicit Random(std::uint64_t stream) : engine_(run_seed() * 1000003u + stream) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  float normal() { return normal_(engine_); }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

// Bytes of exactly this size on the heap, `offset` bytes past an aligned address (unaligned rows),
// so that AddressSanitizer sees one byte too far. Filled with 0xff: NaN in every float format.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes, std::size_t offset = 0)
      : memory_(static_cast<std::byte*>(std::malloc(offset + bytes + (offset + bytes == 0)))),
        offset_(offset),
        bytes_(bytes) {
    std::memset(memory_.get(), 0xff, offset + bytes);
  }
  void* data() { return memory_.get() + offset_; }
  const void* data() const { return memory_.get() + offset_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t offset_, bytes_;
};

inline Buffer normal_tensor(Random& random, std::size_t elements, Format format,
                            float deviation = 1, std::size_t offset = 0) {
  Buffer buffer(elements * bytes_of(format), offset);
  for (std::size_t i = 0; i < elements; ++i) {
    store(buffer.data(), format, i, deviation * random.normal());
  }
  return buffer;
}

// A paged KV cache with its blocks in shuffled places. Rows that no sequence owns are NaN.
struct PagedKv {
  PagedKv(Random& random, const std::vector<std::int32_t>& kv_tokens, int kv_heads, int head_dim,
          int block_tokens, Format format)
      : tokens(kv_tokens), rows([&] {
          for (std::int32_t n : kv_tokens) {
            table_width = std::max(table_width, (n + block_tokens - 1) / block_tokens);
          }
          const std::size_t blocks = static_cast<std::size_t>(table_width) * kv_tokens.size();
          return blocks * static_cast<std::size_t>(kv_heads * block_tokens * 2 * head_dim) *
                 bytes_of(format);
        }()) {
    table.resize(static_cast<std::size_t>(table_width) * kv_tokens.size());
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    std::shuffle(table.begin(), table.end(), random.engine());
    cache.rows = rows.data();
    cache.block_table = table.data();
    cache.table_width = table_width;
    cache.block_tokens = block_tokens;
    cache.kv_heads = kv_heads;
    cache.head_dim = head_dim;
    cache.format = format;
    for (int s = 0; s < static_cast<int>(kv_tokens.size()); ++s) {
      for (int h = 0; h < kv_heads; ++h) {
        for (int t = 0; t < kv_tokens[static_cast<std::size_t>(s)]; ++t) {
          const std::size_t row = cache.row(s, h, t) * cache.row_elements();
          for (std::size_t i = 0; i < cache.row_elements(); ++i) {
            store(rows.data(), format, row + i, random.normal());
          }
        }
      }
    }
  }
  PagedKv(const PagedKv&) = delete;
  PagedKv& operator=(const PagedKv&) = delete;

  std::vector<std::int32_t> tokens;
  int table_width = 1;
  std::vector<std::int32_t> table;
  Buffer rows;
  KvCache cache;
};

// Rows of a KV cache: index [sequences][kv_heads][width], count [sequences][kv_heads].
struct Selection {
  std::vector<std::int32_t> index, count;
  int width = 0;
};

// Distinct tokens, some single, some in runs; what lies past a count must not be looked at.
inline Selection select(Random& random, const std::vector<std::int32_t>& tokens, int kv_heads) {
  Selection selection;
  selection.width = *std::max_element(tokens.begin(), tokens.end()) + 2;
  for (std::int32_t n : tokens) {
    for (int h = 0; h < kv_heads; ++h) {
      std::vector<std::int32_t> chosen;
      for (std::int32_t t = 0; t < n;) {
        const int run = random.between(1, 9);
        if (random.below(2) == 0) {
          for (int i = 0; i < run && t + i < n; ++i) chosen.push_back(t + i);
        }
        t += run;
      }
      selection.count.push_back(static_cast<std::int32_t>(chosen.size()));
      chosen.resize(size(selection.width), -5);
      selection.index.insert(selection.index.end(), chosen.begin(), chosen.end());
    }
  }
  return selection;
}

// |ours - reference| of the worst element, relative to the largest |reference| (1 where that is 0).
// Infinity where one is NaN and the other is not.
inline double worst_error(const void* ours, const void* reference, Format format,
                          std::size_t elements) {
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    const double a = load(ours, format, i), b = load(reference, format, i);
    if (std::isnan(a) != std::isnan(b)) return std::numeric_limits<double>::infinity();
    if (std::isnan(a)) continue;
    largest = std::max(largest, std::fabs(b));
    if (a != b) worst = std::max(worst, std::fabs(a - b));
  }
  return worst / (largest > 0 ? largest : 1);
}

// What a result that is computed in fp32 and rounded to the format may differ by from one that is
// computed in double and rounded: where the two lie on different sides of a tie, one step of the
// format (2^-7 of a value just above a power of two in bf16), and fp32 sums over `terms` terms.
inline double allowed_error(Format format, std::size_t terms) {
  const double step = format == Format::bf16 ? 0x1p-7 : format == Format::fp16 ? 0x1p-10 : 0x1p-23;
  return step + 0x1p-24 * (4 * std::sqrt(static_cast<double>(terms)) + 16);
}

}  // namespace kvlane::kernels::testing
