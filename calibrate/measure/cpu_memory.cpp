#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "calibrate/measure/cpu_operands.h"
#include "calibrate/measure/grid.h"
#include "kernels/kv_gather/kernel.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10U;  // what a thread takes at a time
constexpr std::size_t kLine = 64;

// A word of every line: what the memory moves, at the least cost of the processor.
std::uint64_t sum_lines(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kChains = 4;
  std::uint64_t sums[kChains] = {};
  std::size_t at = 0;
  for (; at + kChains * kLine <= bytes; at += kChains * kLine) {
    for (std::size_t c = 0; c < kChains; ++c) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + at + c * kLine, sizeof word);
      sums[c] += word;
    }
  }
  for (; at + sizeof(std::uint64_t) <= bytes; at += kLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, sizeof word);
    sums[0] += word;
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

template <class Body>
void in_pieces(kernels::Cpu& cpu, std::size_t bytes, Body body) {
  // At least one piece a thread, so that small sizes are shared too.
  const auto threads = static_cast<std::size_t>(cpu.threads());
  const std::size_t even = (bytes / threads + kLine - 1) / kLine * kLine;
  const std::size_t piece = std::clamp<std::size_t>(even, 4096, kPiece);
  cpu.parallel_for((bytes + piece - 1) / piece, [&](std::size_t task, int) {
    const std::size_t at = task * piece;
    body(at, std::min(piece, bytes - at));
  });
}

Call read(const Sample& shape, CpuOperands& operands) {
  const auto bytes = static_cast<std::size_t>(shape.shape[0]);
  const auto* from = operands.in<std::byte>(static_cast<double>(bytes));
  if (from == nullptr) return {};
  auto total = std::make_shared<std::atomic<std::uint64_t>>(0);  // or the compiler skips it all
  return [from, bytes, total, &cpu = operands.cpu] {
    in_pieces(cpu, bytes, [&](std::size_t at, std::size_t size) {
      total->fetch_add(sum_lines(from + at, size), std::memory_order_relaxed);
    });
  };
}

Call copy(const Sample& shape, CpuOperands& operands) {
  const auto bytes = static_cast<std::size_t>(shape.shape[0]);
  const auto* from = operands.in<std::byte>(static_cast<double>(bytes));
  auto* to = operands.out<std::byte>(static_cast<double>(bytes));
  if (from == nullptr || to == nullptr) return {};
  if (shape.variant == kMemoryCopyOneThread) {
    return [=] { std::memcpy(to, from, bytes); };
  }
  if (shape.variant == kMemoryCopyBothWays) {
    // Two buffers on each side: pieces go there and back in turn.
    auto* back = operands.out<std::byte>(static_cast<double>(bytes));
    const auto* there = operands.in<std::byte>(static_cast<double>(bytes));
    if (back == nullptr || there == nullptr) return {};
    return [=, &cpu = operands.cpu] {
      in_pieces(cpu, bytes, [&](std::size_t at, std::size_t size) {
        std::memcpy(to + at, from + at, size);
        std::memcpy(back + at, there + at, size);
      });
    };
  }
  return [from, to, bytes, &cpu = operands.cpu] {
    in_pieces(cpu, bytes,
              [&](std::size_t at, std::size_t size) { std::memcpy(to + at, from + at, size); });
  };
}

Call gather(const Sample& shape, CpuOperands& operands) {
  const bool scatter = shape.kernel == "kv_scatter";
  const int sequences = size_in(shape, "sequences"), kv_heads = size_in(shape, "kv_heads");
  const int tokens = size_in(shape, "kv_tokens"), width = size_in(shape, "head_width");
  const int selected = size_in(shape, "selected_tokens");
  auto cache = paged_cache(operands, sequences, tokens, kv_heads, width, scatter);
  auto index = std::make_shared<std::vector<std::int32_t>>(
      selection(operands, sequences * kv_heads, tokens, selected, size_in(shape, "run_tokens")));
  kernels::KvGather args;
  args.sequences = sequences;
  args.kv = cache->kv;
  args.kv_tokens = cache->tokens.data();
  args.index = index->data();
  args.index_width = selected;
  args.packed = operands.out<std::byte>(static_cast<double>(index->size()) *
                                        static_cast<double>(args.kv.row_bytes()));
  if (args.kv.rows == nullptr || args.packed == nullptr) return {};
  return [args, cache, index, scatter, &cpu = operands.cpu] {
    scatter ? kernels::cpu::kv_scatter(args, cpu) : kernels::cpu::kv_gather(args, cpu);
  };
}

}  // namespace

Call memory_call(const Sample& shape, CpuOperands& operands) {
  if (shape.kernel == "read") return read(shape, operands);
  if (shape.kernel == "copy") return copy(shape, operands);
  if (shape.kernel == "kv_gather" || shape.kernel == "kv_scatter") return gather(shape, operands);
  return {};
}

}  // namespace kvlane::calibrate
