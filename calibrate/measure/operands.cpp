#include "calibrate/measure/operands.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/common/format.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kPiece = 256;

}  // namespace

std::byte* Arena::take(std::size_t bytes) {
  const std::size_t wanted = (std::max<std::size_t>(bytes, 1) + kPiece - 1) / kPiece * kPiece;
  if (bytes > size_ || wanted > size_ - used_) throw NoRoom();
  std::byte* piece = memory_ + used_;
  used_ += wanted;
  return piece;
}

Operands::Operands(Arena values, Arena results, Write write)
    : values_(values), results_(results), write_(std::move(write)) {
  // A block of random values, over and over: to draw gigabytes would take as long as to measure.
  std::mt19937_64 draw(1);
  std::vector<std::uint16_t> block(std::size_t{1} << 19U);
  std::uniform_real_distribution<float> size(0.5F, 2.0F);
  for (std::uint16_t& value : block) {
    const float magnitude = size(draw);
    value = kernels::to_bf16((draw() & 1U) != 0 ? -magnitude : magnitude);
  }
  const std::size_t bytes = block.size() * sizeof(std::uint16_t);
  for (std::size_t at = 0; at < values_.size(); at += bytes) {
    write_(values_.memory() + at, block.data(), std::min(bytes, values_.size() - at));
  }
}

void Operands::reset() {
  values_.reset();
  results_.reset();
}

kernels::KvCache paged_cache(Operands& rows, Operands& lists, int sequences, int tokens,
                             int kv_heads, int width, bool writable) {
  const int blocks = (tokens + kBlockTokens - 1) / kBlockTokens;
  std::vector<std::int32_t> table(static_cast<std::size_t>(sequences) *
                                  static_cast<std::size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), lists.random);
  kernels::KvCache kv;
  kv.block_table = lists.list(table);
  kv.table_width = blocks;
  kv.block_tokens = kBlockTokens;
  kv.kv_heads = kv_heads;
  kv.head_dim = width;
  const double bytes = static_cast<double>(table.size()) * static_cast<double>(kv.block_bytes());
  kv.rows = writable ? rows.out<std::byte>(bytes) : rows.in<std::byte>(bytes);
  return kv;
}

std::vector<std::int32_t> selection(Operands& operands, int rows, int tokens, int selected,
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
