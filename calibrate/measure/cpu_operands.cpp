#include "calibrate/measure/cpu_operands.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

#include "kernels/common/format.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kLine = 64;

std::size_t in_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

void Arena::Free::operator()(void* memory) const { std::free(memory); }

Arena::Arena(std::size_t bytes, std::uint64_t seed) : bytes_(in_lines(bytes)) {
  constexpr std::size_t kPage = 4096;
  void* memory = std::aligned_alloc(kPage, (bytes_ + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw std::bad_alloc();
  memory_.reset(static_cast<std::byte*>(memory));
  if (seed == 0) {
    std::memset(memory, 0, bytes_);  // touched: no page fault is ever measured
    return;
  }
  // A block of random values, over and over: to draw gigabytes would take as long as to measure.
  std::mt19937_64 random(seed);
  std::vector<std::uint16_t> values(1U << 16U);
  std::uniform_real_distribution<float> size(0.5F, 2.0F);
  for (std::uint16_t& value : values) {
    const float magnitude = size(random);
    value = kernels::to_bf16((random() & 1U) != 0 ? -magnitude : magnitude);
  }
  const std::size_t block = values.size() * sizeof(std::uint16_t);
  for (std::size_t at = 0; at < bytes_; at += block) {
    std::memcpy(memory_.get() + at, values.data(), std::min(block, bytes_ - at));
  }
}

void* Arena::take(std::size_t bytes) {
  const std::size_t wanted = in_lines(std::max<std::size_t>(bytes, 1));
  if (wanted > bytes_ - used_) return nullptr;
  void* piece = memory_.get() + used_;
  used_ += wanted;
  return piece;
}

std::shared_ptr<PagedCache> paged_cache(CpuOperands& operands, int sequences, int tokens,
                                        int kv_heads, int width, bool writable) {
  auto cache = std::make_shared<PagedCache>();
  const int blocks = (tokens + kBlockTokens - 1) / kBlockTokens;
  cache->table.resize(static_cast<std::size_t>(sequences) * static_cast<std::size_t>(blocks));
  std::iota(cache->table.begin(), cache->table.end(), 0);
  std::shuffle(cache->table.begin(), cache->table.end(), operands.random);
  cache->tokens.assign(static_cast<std::size_t>(sequences), tokens);
  kernels::KvCache& kv = cache->kv;
  kv.block_table = cache->table.data();
  kv.table_width = blocks;
  kv.block_tokens = kBlockTokens;
  kv.kv_heads = kv_heads;
  kv.head_dim = width;
  const double bytes =
      static_cast<double>(cache->table.size()) * static_cast<double>(kv.block_bytes());
  kv.rows = writable ? operands.out<std::byte>(bytes) : operands.in<std::byte>(bytes);
  return cache;
}

std::vector<std::int32_t> selection(CpuOperands& operands, int rows, int tokens, int selected,
                                    int run) {
  std::vector<std::int32_t> index;
  // Every place that a run can have, at multiples of its length: no row is chosen twice.
  std::vector<std::int32_t> places(static_cast<std::size_t>(tokens / run));
  std::iota(places.begin(), places.end(), 0);
  for (int row = 0; row < rows; ++row) {
    std::shuffle(places.begin(), places.end(), operands.random);
    const auto wanted =
        std::min(places.size(), static_cast<std::size_t>((selected + run - 1) / run));
    std::vector<std::int32_t> chosen(places.begin(),
                                     places.begin() + static_cast<std::ptrdiff_t>(wanted));
    std::sort(chosen.begin(), chosen.end());
    int left = selected;
    for (const std::int32_t place : chosen) {
      for (int i = 0; i < run && left > 0; ++i, --left) index.push_back(place * run + i);
    }
    // Fewer whole runs than rows wanted: the last rows of the sequence.
    for (; left > 0; --left) index.push_back(tokens - left);
  }
  return index;
}

}  // namespace kvlane::calibrate
