#include "calibrate/live/compute/cpu_mover.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "kernels/kv_gather/kernel.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20U;
constexpr int kBlockTokens = 16;

// Of a row without a layer; a head of 128 channels.
constexpr std::int64_t kPlainRow = 512;

}  // namespace

CpuMover::CpuMover(const CostModel& model, std::size_t bytes)
    : model_(model), host_(bytes), device_(bytes) {
  KVLANE_CHECK(bytes >= static_cast<std::size_t>(kPiece), "{} bytes to copy in", bytes);
}

std::size_t CpuMover::row_bytes(const Job& job) const {
  const std::vector<LayerSpec>& layers = model_.model().layers;
  std::int64_t bytes = kPlainRow;
  if (job.work.layer.is_valid() && job.work.layer.index() < layers.size()) {
    const LayerSpec& layer = layers[job.work.layer.index()];
    bytes = std::max<std::int64_t>(2 * (layer.k_width + layer.v_width), 1);
  }
  // Whole rows of K and V of the kernel's widths.
  return static_cast<std::size_t>((bytes + 63) / 64 * 64);
}

bool CpuMover::begin(Job& job, bool) {
  job.next = 0;
  return true;
}

bool CpuMover::step(Job& job) {
  const bool copies = job.kind == Job::Kind::copy;
  const std::int64_t all = (copies ? job.copy.bytes : job.work.bytes).count();
  if (job.next < all) job.next += copies ? copy(job, all - job.next) : gather(job, all - job.next);
  return job.next >= all;
}

// At most one of its `copies` at a time, as each is a launch of its own.
std::int64_t CpuMover::copy(const Job& job, std::int64_t left) {
  const std::int64_t launches = std::max<std::int64_t>(job.copy.copies, 1);
  const std::int64_t each = (job.copy.bytes.count() + launches - 1) / launches;
  const auto size = static_cast<std::size_t>(std::min({left, each, kPiece}));
  if (at_ + size > host_.bytes()) at_ = 0;
  std::byte* host = host_.data() + at_;
  std::byte* device = device_.data() + at_;
  const bool up = job.copy.direction == CopyDirection::host_to_device;
  std::memcpy(up ? device : host, up ? host : device, size);
  at_ += size;
  return static_cast<std::int64_t>(size);
}

// Single rows of one large cache in a random order, packed one after the other.
std::int64_t CpuMover::gather(const Job& job, std::int64_t left) {
  const std::size_t row = row_bytes(job);
  const std::size_t tokens = host_.bytes() / row / kBlockTokens * kBlockTokens;
  if (rows_.size() != tokens) {
    rows_.resize(tokens);
    std::iota(rows_.begin(), rows_.end(), 0);
    std::shuffle(rows_.begin(), rows_.end(), std::mt19937_64(1));
    blocks_.resize(tokens / kBlockTokens);
    std::iota(blocks_.begin(), blocks_.end(), 0);
    next_row_ = 0;
  }
  const auto wanted = static_cast<std::size_t>(std::min(left, kPiece)) / row;
  const std::size_t count =
      std::clamp<std::size_t>(wanted, 1, std::min(tokens - next_row_, device_.bytes() / row));
  kernels::KvGather args;
  args.sequences = 1;
  args.kv.rows = host_.data();
  args.kv.block_table = blocks_.data();
  args.kv.table_width = static_cast<int>(blocks_.size());
  args.kv.block_tokens = kBlockTokens;
  args.kv.kv_heads = 1;
  args.kv.head_dim = static_cast<int>(row / 4);  // K and V of 16-bit values
  const auto all = static_cast<std::int32_t>(tokens);
  args.kv_tokens = &all;
  args.index = rows_.data() + next_row_;
  args.index_width = static_cast<int>(count);
  args.packed = device_.data();
  kernels::cpu::kv_gather(args, cpu_);
  next_row_ = next_row_ + count < tokens ? next_row_ + count : 0;
  return static_cast<std::int64_t>(count * row);
}

}  // namespace kvlane::live
