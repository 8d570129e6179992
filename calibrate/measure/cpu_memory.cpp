#include "calibrate/measure/cpu_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "calibrate/measure/grid.h"
#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10U;  // what a thread takes at a time
constexpr std::size_t kLeastPiece = std::size_t{32} << 10U;
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
  // At least one piece a thread, as far as that is worth waking it.
  const auto threads = static_cast<std::size_t>(cpu.threads());
  const std::size_t even = (bytes / threads + kLine - 1) / kLine * kLine;
  const std::size_t piece = std::clamp<std::size_t>(even, kLeastPiece, kPiece);
  cpu.parallel_for((bytes + piece - 1) / piece, [&](std::size_t task, int) {
    const std::size_t at = task * piece;
    body(at, std::min(piece, bytes - at));
  });
}

Call copy(const Sample& shape, Operands& operands, kernels::Cpu& cpu) {
  const auto bytes = static_cast<std::size_t>(shape.shape[0]);
  const auto room = static_cast<double>(bytes);
  const auto* from = operands.in<std::byte>(room);
  auto* to = operands.out<std::byte>(room);
  if (shape.variant == kMemoryCopyOneThread) {
    return [=] { std::memcpy(to, from, bytes); };
  }
  if (shape.variant == kMemoryCopyBothWays) {
    // Two buffers on each side: pieces go there and back in turn.
    auto* back = operands.out<std::byte>(room);
    const auto* there = operands.in<std::byte>(room);
    return [=, &cpu] {
      in_pieces(cpu, bytes, [&](std::size_t at, std::size_t size) {
        std::memcpy(to + at, from + at, size);
        std::memcpy(back + at, there + at, size);
      });
    };
  }
  return [=, &cpu] {
    in_pieces(cpu, bytes,
              [&](std::size_t at, std::size_t size) { std::memcpy(to + at, from + at, size); });
  };
}

Call gather(const Sample& shape, Operands& operands, kernels::Cpu& cpu) {
  const kernels::KvGather args = gather_arguments(shape, operands, operands, operands);
  if (shape.kernel == "kv_scatter") return [args, &cpu] { kernels::cpu::kv_scatter(args, cpu); };
  return [args, &cpu] { kernels::cpu::kv_gather(args, cpu); };
}

}  // namespace

Call read_call(const std::byte* from, std::size_t bytes, kernels::Cpu& cpu) {
  auto total = std::make_shared<std::atomic<std::uint64_t>>(0);  // or the compiler skips it all
  return [from, bytes, total, &cpu] {
    in_pieces(cpu, bytes, [&](std::size_t at, std::size_t size) {
      total->fetch_add(sum_lines(from + at, size), std::memory_order_relaxed);
    });
  };
}

Call cpu_memory_call(const Sample& shape, Operands& operands, kernels::Cpu& cpu) {
  if (shape.kernel == "read") {
    const auto bytes = static_cast<std::size_t>(shape.shape[0]);
    return read_call(operands.in<std::byte>(static_cast<double>(bytes)), bytes, cpu);
  }
  if (shape.kernel == "copy") return copy(shape, operands, cpu);
  if (shape.kernel == "kv_gather" || shape.kernel == "kv_scatter")
    return gather(shape, operands, cpu);
  return {};
}

}  // namespace kvlane::calibrate
