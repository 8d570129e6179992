// Version 1: radix select. Scores become integers of the same order; a histogram of their upper 12
// bits finds the bucket of the k-th largest, whose members are collected and looked at by the next
// 10 and the last 10 bits. One more pass writes the positions above that value, and as many equal
// ones as are left. Every pass is linear, whatever the values.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/topk/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/common/argument.h"
#include "kernels/topk/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;
constexpr std::size_t kBuckets = 4096;

// Integers in the order of the floats: NaN is 0, -0 is +0.
HWY_INLINE hn::Vec<Words> ordered_keys(hn::Vec<Floats> x) {
  const Words d;
  const hn::RebindToSigned<Words> di;
  const auto zero_is_positive = hn::Add(x, hn::Zero(Floats()));
  const auto bits = hn::BitCast(d, zero_is_positive);
  const auto sign =
      hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(di, bits)));  // all ones: negative
  const auto key = hn::Xor(bits, hn::Or(sign, hn::Set(d, 0x80000000u)));
  return hn::IfThenZeroElse(hn::RebindMask(d, hn::IsNaN(x)), key);
}

// The bucket of the k-th largest, counted from the highest; k becomes its rank in the bucket.
HWY_INLINE std::uint32_t find_bucket(const std::uint32_t* histogram, std::size_t buckets,
                                     std::size_t& k) {
  std::size_t bucket = buckets - 1;
  while (histogram[bucket] < k) k -= histogram[bucket--];
  return static_cast<std::uint32_t>(bucket);
}

// The k-th largest of n keys (1 <= k <= n), and in `equal` how many of its value belong to the k.
HWY_INLINE std::uint32_t kth_largest(const std::uint32_t* keys, std::size_t n, std::size_t k,
                                     std::uint32_t* histogram, std::uint32_t* members,
                                     std::size_t& equal) {
  const Words d;
  const std::size_t lanes = hn::Lanes(d);
  std::uint32_t prefix = 0;
  int bits_left = 32;
  const std::uint32_t* from = keys;
  for (int bits : {12, 10, 10}) {
    const int shift = bits_left - bits;
    const std::size_t buckets = std::size_t{1} << bits;
    // Two histograms in turn: equal keys in a row do not wait for each other's increment.
    std::fill_n(histogram, 2 * kBuckets, 0u);
    std::uint32_t* other = histogram + kBuckets;
    const auto mask = static_cast<std::uint32_t>(buckets - 1);
    std::size_t i = 0;
    for (; i + 2 <= n; i += 2) {
      ++histogram[(from[i] >> shift) & mask];
      ++other[(from[i + 1] >> shift) & mask];
    }
    if (i < n) ++histogram[(from[i] >> shift) & mask];
    for (std::size_t b = 0; b < buckets; ++b) histogram[b] += other[b];
    prefix = (prefix << bits) | find_bucket(histogram, buckets, k);
    bits_left = shift;
    if (bits_left == 0) break;
    std::size_t count = 0;
    const auto wanted = hn::Set(d, prefix);
    i = 0;
    for (; i + lanes <= n; i += lanes) {
      const auto key = hn::LoadU(d, from + i);
      const auto match =
          hn::Eq(shift == 20 ? hn::ShiftRight<20>(key) : hn::ShiftRight<10>(key), wanted);
      count += hn::CompressBlendedStore(key, match, d, members + count);
    }
    for (; i < n; ++i) {
      if (from[i] >> shift == prefix) members[count++] = from[i];
    }
    from = members;  // the next pass collects in place: it writes behind what it reads
    n = count;
  }
  equal = k;
  return prefix;
}

HWY_INLINE void select_row(const float* scores, std::size_t n, std::size_t k, std::uint32_t* work,
                           std::int32_t* index) {
  const Floats df;
  const Words d;
  const hn::RebindToSigned<Words> di;
  const std::size_t lanes = hn::Lanes(d);
  std::uint32_t* histogram = work;
  std::uint32_t* keys = histogram + 2 * kBuckets;
  std::uint32_t* members = keys + n;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(ordered_keys(hn::LoadU(df, scores + i)), d, keys + i);
  }
  if (i < n) {
    std::array<float, hn::MaxLanes(Floats())> rest{};
    std::copy(scores + i, scores + n, rest.begin());
    std::array<std::uint32_t, hn::MaxLanes(Floats())> rest_keys{};
    hn::StoreU(ordered_keys(hn::LoadU(df, rest.data())), d, rest_keys.data());
    std::copy_n(rest_keys.begin(), n - i, keys + i);
  }
  std::size_t equal = 0;
  const std::uint32_t least = kth_largest(keys, n, k, histogram, members, equal);
  const auto bound = hn::Set(d, least);
  std::size_t written = 0;
  const auto one_by_one = [&](std::size_t first, std::size_t last) {
    for (std::size_t at = first; at < last && written < k; ++at) {
      if (keys[at] < least || (keys[at] == least && equal == 0)) continue;
      if (keys[at] == least) --equal;
      index[written++] = static_cast<std::int32_t>(at);
    }
  };
  i = 0;
  // A vector of positions may be written past what counts: only while it fits.
  for (; i + lanes <= n && written + lanes <= k; i += lanes) {
    const auto key = hn::LoadU(d, keys + i);
    auto chosen = hn::Gt(key, bound);
    if (equal > 0) {
      const auto ties = hn::Eq(key, bound);
      const std::size_t tied = hn::CountTrue(d, ties);
      if (tied > equal) {  // only the first of these ties count
        one_by_one(i, i + lanes);
        continue;
      }
      equal -= tied;
      chosen = hn::Or(chosen, ties);
    }
    const auto positions = hn::Iota(di, static_cast<std::int32_t>(i));
    written += hn::CompressStore(positions, hn::RebindMask(di, chosen), di, index + written);
  }
  one_by_one(i, n);
}

void run(const TopK& args, Cpu& cpu) {
  const auto width = static_cast<std::size_t>(args.width), k = static_cast<std::size_t>(args.k);
  const std::size_t work = 2 * kBuckets + 2 * width + 64;  // the last collection may overshoot
  auto* memory = static_cast<std::uint32_t*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * work * sizeof(std::uint32_t)));
  cpu.parallel_for(static_cast<std::size_t>(args.rows), [&](std::size_t row, int worker) {
    const std::size_t n = args.n == nullptr ? width : static_cast<std::size_t>(args.n[row]);
    const std::size_t count = std::min(k, n);
    std::int32_t* index = args.index + row * k;
    if (count > 0) {
      select_row(args.scores + row * width, n, count,
                 memory + static_cast<std::size_t>(worker) * work, index);
    }
    std::fill(index + count, index + k, -1);
    args.count[row] = static_cast<std::int32_t>(count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run);

void cpu::topk(const TopK& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
