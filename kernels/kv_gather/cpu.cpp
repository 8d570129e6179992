// Version 2: row by row, rows ahead are sent for line by line (runs of neighbours as one copy
// before, with the rows ahead in one burst); more than a megabyte is written past the caches, as
// memcpy does with what is large, so that the destination is not read first.

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

// `past_caches`: the destination is not wanted in a cache. Of `ahead`, the row of a later turn, a
// line is sent for with each line that is copied: in bursts, processors drop what they cannot
// queue.
HWY_INLINE void copy_row(const std::byte* from, std::byte* to, std::size_t bytes,
                         const std::byte* ahead, bool past_caches) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* target = reinterpret_cast<std::uint8_t*>(to);
  const bool whole = bytes % (4 * step) == 0;
  if (!whole) {
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
    std::memcpy(to, from, bytes);
    return;
  }
  past_caches = past_caches && reinterpret_cast<std::uintptr_t>(to) % step == 0;
  for (std::size_t i = 0; i < bytes; i += 4 * step) {
    for (std::size_t l = 0; l < 4 * step; l += 64) __builtin_prefetch(ahead + i + l, 0, 2);
    const auto a = hn::LoadU(d, source + i), b = hn::LoadU(d, source + i + step);
    const auto c = hn::LoadU(d, source + i + 2 * step), e = hn::LoadU(d, source + i + 3 * step);
    if (past_caches) {
      hn::Stream(a, d, target + i);
      hn::Stream(b, d, target + i + step);
      hn::Stream(c, d, target + i + 2 * step);
      hn::Stream(e, d, target + i + 3 * step);
    } else {
      hn::StoreU(a, d, target + i);
      hn::StoreU(b, d, target + i + step);
      hn::StoreU(c, d, target + i + 2 * step);
      hn::StoreU(e, d, target + i + 3 * step);
    }
  }
}

void move_rows(const KvGather& args, bool gather, Cpu& cpu) {
  constexpr std::size_t kTask = 256;                         // rows
  constexpr std::size_t kAheadBytes = 12288;                 // of rows that are on their way
  constexpr std::size_t kPastCaches = std::size_t{1} << 20;  // bytes in all
  const KvCache& kv = args.kv;
  const auto heads = static_cast<std::size_t>(kv.kv_heads);
  const auto width = static_cast<std::size_t>(args.index_width);
  const std::size_t pairs = static_cast<std::size_t>(args.sequences) * heads;
  const std::size_t bytes = kv.row_bytes();
  const std::size_t rows_ahead = std::max<std::size_t>(1, kAheadBytes / bytes);
  const bool past_caches = pairs * width * bytes >= kPastCaches;
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
    for (std::size_t i = first; i < last; ++i) {
      std::byte* row = rows + place(index[i]) * bytes;
      std::byte* out = packed + (pair * width + i) * bytes;
      const std::byte* ahead = rows + place(index[std::min(i + rows_ahead, last - 1)]) * bytes;
      gather ? copy_row(row, out, bytes, ahead, past_caches)
             : copy_row(out, row, bytes, out + kAheadBytes, past_caches);
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
