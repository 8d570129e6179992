// Version 1: runs of neighbouring tokens are one copy; rows ahead are prefetched; what is larger
// than a cache is written past it, as memcpy does, so that the destination is not read first.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_gather/cpu.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/common/argument.h"
#include "kernels/kv_gather/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `past_caches`: the destination is not wanted in a cache.
HWY_INLINE void copy_run(const std::byte* from, std::byte* to, std::size_t bytes,
                         bool past_caches) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  if (!past_caches || reinterpret_cast<std::uintptr_t>(to) % step != 0 || bytes % (4 * step) != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* target = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < bytes; i += 4 * step) {
    const auto a = hn::LoadU(d, source + i), b = hn::LoadU(d, source + i + step);
    const auto c = hn::LoadU(d, source + i + 2 * step), e = hn::LoadU(d, source + i + 3 * step);
    hn::Stream(a, d, target + i);
    hn::Stream(b, d, target + i + step);
    hn::Stream(c, d, target + i + 2 * step);
    hn::Stream(e, d, target + i + 3 * step);
  }
}

void move_rows(const KvGather& args, bool gather, Cpu& cpu) {
  constexpr std::size_t kTask = 256;                         // rows
  constexpr std::size_t kAhead = 8;                          // rows that are prefetched
  constexpr std::size_t kPastCaches = std::size_t{8} << 20;  // bytes in all
  const KvCache& kv = args.kv;
  const auto heads = static_cast<std::size_t>(kv.kv_heads);
  const auto width = static_cast<std::size_t>(args.index_width);
  const std::size_t pairs = static_cast<std::size_t>(args.sequences) * heads;
  const std::size_t bytes = kv.row_bytes();
  const bool past_caches = pairs * width * bytes >= kPastCaches;
  const auto block_tokens = static_cast<unsigned>(kv.block_tokens);
  auto* rows = static_cast<std::byte*>(const_cast<void*>(kv.rows));
  auto* packed = static_cast<std::byte*>(args.packed);
  const std::size_t tasks = (width + kTask - 1) / kTask;
  cpu.parallel_for(pairs * tasks, [&](std::size_t task, int) {
    const std::size_t pair = task / tasks, first = task % tasks * kTask;
    const std::size_t count =
        args.index_count == nullptr ? width : static_cast<std::size_t>(args.index_count[pair]);
    const std::size_t last = std::min(count, first + kTask);
    const std::int32_t* index = args.index + pair * width;
    const KvRows place(kv, pair / heads, pair % heads);
    const auto row_of = [&](std::size_t i) { return place(index[i]) * bytes; };
    for (std::size_t i = first; i < last;) {
      const std::size_t from = row_of(i);
      std::size_t run = 1;
      while (i + run < last && index[i + run] == index[i] + static_cast<std::int32_t>(run) &&
             static_cast<unsigned>(index[i + run]) % block_tokens != 0) {
        ++run;
      }
      if (gather) {
        for (std::size_t ahead = i + kAhead; ahead < std::min(last, i + kAhead + run); ++ahead) {
          const std::byte* line = rows + row_of(ahead);
          for (std::size_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(line + byte);
        }
        copy_run(rows + from, packed + (pair * width + i) * bytes, run * bytes, past_caches);
      } else {
        copy_run(packed + (pair * width + i) * bytes, rows + from, run * bytes, past_caches);
      }
      i += run;
    }
    if (past_caches) hwy::FlushStream();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(move_rows);

void cpu::kv_gather(const KvGather& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(move_rows)(args, true, cpu);
}

void cpu::kv_scatter(const KvGather& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(move_rows)(args, false, cpu);
}

}  // namespace kvlane::kernels
#endif
