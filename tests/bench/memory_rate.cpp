#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/memory_rate.cpp"
#include "tests/bench/memory_rate.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace kvlane::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t sum_of(const std::uint64_t* from, std::size_t words) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  std::size_t i = 0;
  for (; i + 4 * lanes <= words; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, from + i));
    b = hn::Add(b, hn::LoadU(d, from + i + lanes));
    c = hn::Add(c, hn::LoadU(d, from + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, from + i + 3 * lanes));
  }
  std::uint64_t lane[hn::MaxLanes(d)];
  hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, lane);
  std::uint64_t sum = 0;
  for (std::size_t l = 0; l < lanes; ++l) sum += lane[l];
  for (; i < words; ++i) sum += from[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::bench {

HWY_EXPORT(sum_of);

std::uint64_t read_all(const void* from, std::size_t bytes, kernels::Cpu& cpu) {
  constexpr std::size_t kPart = (1 << 20) / 8;
  const std::size_t words = bytes / 8;
  std::atomic<std::uint64_t> sum{0};
  cpu.parallel_for((words + kPart - 1) / kPart, [&](std::size_t part, int) {
    const std::size_t first = part * kPart;
    sum += HWY_DYNAMIC_DISPATCH(sum_of)(static_cast<const std::uint64_t*>(from) + first,
                                        std::min(kPart, words - first));
  });
  return sum;
}

void copy_all(void* to, const void* from, std::size_t bytes, kernels::Cpu& cpu) {
  const auto threads = static_cast<std::size_t>(cpu.threads());
  const std::size_t part = (bytes / threads + 4095) / 4096 * 4096;
  cpu.parallel_for(threads, [&](std::size_t thread, int) {
    const std::size_t first = std::min(bytes, thread * part);
    std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                std::min(part, bytes - first));
  });
}

std::size_t last_level_cache() {
  for (int name : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    const long size = sysconf(name);
    if (size > 0) return static_cast<std::size_t>(size);
  }
  return std::size_t{32} << 20;
}

}  // namespace kvlane::bench
#endif
