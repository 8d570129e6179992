// Version 1: codes as a product with the hash matrix, four vectors at a time, whose signs are
// gathered by a mask; scores by xor and population count over eight codes a vector of AVX-512.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hata/cpu.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/argument.h"
#include "kernels/common/row_product-inl.h"
#include "kernels/hata/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE HataCode signs_of(const float* sums) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  HataCode code{};
  for (std::size_t j = 0; j < 128; j += lanes) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, sums + j), hn::Zero(d)), bits);
    std::uint64_t word = 0;
    std::memcpy(&word, bits, sizeof word);  // a vector of sums fills at most 16 bits
    code.word[j / 64] |= word << (j % 64);
  }
  return code;
}

template <class T>
void encode_in(const HataEncode& args, Cpu& cpu) {
  constexpr std::size_t kTask = 64;  // tokens
  const auto tokens = static_cast<std::size_t>(args.tokens);
  const auto heads = static_cast<std::size_t>(args.heads);
  const auto width = static_cast<std::size_t>(args.head_dim);
  const std::size_t group = heads / static_cast<std::size_t>(args.kv_heads);
  const std::size_t tasks = (tokens + kTask - 1) / kTask;
  const std::size_t work = kProductRows * (width + 128);
  auto* memory = static_cast<float*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * work * sizeof(float)));
  const auto* x = static_cast<const T*>(args.x);
  cpu.parallel_for(heads * tasks, [&](std::size_t task, int worker) {
    const std::size_t h = task / tasks, first = task % tasks * kTask;
    const std::size_t last = std::min(tokens, first + kTask);
    const float* weights = args.weights + h / group * width * 128;
    float* vectors = memory + static_cast<std::size_t>(worker) * work;
    float* sums = vectors + kProductRows * width;
    for (std::size_t t = first; t < last; t += kProductRows) {
      const std::size_t rows = std::min(kProductRows, last - t);
      for (std::size_t r = 0; r < rows; ++r) {
        to_floats(x + ((t + r) * heads + h) * width, width, vectors + r * width);
      }
      row_product(rows, vectors, width, weights, 128, sums);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t at = (t + r) * heads + h;
        args.codes[at] = signs_of(sums + r * 128);
        if (args.norms != nullptr) {
          double square = 0;
          for (std::size_t i = 0; i < width; ++i) {
            square += static_cast<double>(vectors[r * width + i]) *
                      static_cast<double>(vectors[r * width + i]);
          }
          args.norms[at] = to_fp16(static_cast<float>(std::sqrt(square)));
        }
      }
    }
  });
}

void run_encode(const HataEncode& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { encode_in<typename decltype(element)::type>(args, cpu); });
}

// distances[i] = sum over the group of hamming(query, codes[i]) for a vector of codes at once.
// `past_caches`: the scores are not wanted in a cache; so their lines are not read first.
HWY_INLINE void score_tokens(const HataCode* query, std::size_t group, const HataCode* codes,
                             const std::uint16_t* norms, std::size_t n, float* scores,
                             bool past_caches) {
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Rebind<std::uint32_t, decltype(d)> du32;
  const hn::Rebind<std::int32_t, decltype(d)> di32;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  const auto all = hn::Set(df, static_cast<float>(group));
  constexpr std::size_t kAhead = 256;  // codes that are on their way, 4 KiB
  // Highway 1.0 streams no less than 16 bytes.
  const bool stream =
      past_caches && lanes >= 4 && reinterpret_cast<std::uintptr_t>(scores) % 64 == 0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> low, high;
    for (std::size_t ahead = 0; ahead < lanes; ahead += 4) {
      __builtin_prefetch(codes + i + kAhead + ahead, 0, 2);
    }
    hn::LoadInterleaved2(d, codes[i].word, low, high);
    auto distance = hn::Zero(d);
    for (std::size_t g = 0; g < group; ++g) {
      const auto a = hn::PopulationCount(hn::Xor(low, hn::Set(d, query[g].word[0])));
      const auto b = hn::PopulationCount(hn::Xor(high, hn::Set(d, query[g].word[1])));
      distance = hn::Add(distance, hn::Add(a, b));
    }
    const auto count = hn::ConvertTo(df, hn::BitCast(di32, hn::TruncateTo(du32, distance)));
    auto score = hn::NegMulAdd(count, hn::Set(df, 1.0f / 64), all);  // exact: a multiple of 1/64
    if (norms != nullptr) {
      const auto norm = load_floats(df, reinterpret_cast<const Fp16*>(norms + i));
      score = hn::Mul(score, norm);
    }
    stream ? hn::Stream(score, df, scores + i) : hn::StoreU(score, df, scores + i);
  }
  for (; i < n; ++i) {
    int distance = 0;
    for (std::size_t g = 0; g < group; ++g) {
      distance += __builtin_popcountll(query[g].word[0] ^ codes[i].word[0]) +
                  __builtin_popcountll(query[g].word[1] ^ codes[i].word[1]);
    }
    const float score = static_cast<float>(group) - static_cast<float>(distance) / 64;
    scores[i] = norms == nullptr ? score : score * from_fp16(norms[i]);
  }
}

void run_score(const HataScore& args, Cpu& cpu) {
  constexpr std::size_t kTask = 4096;                        // tokens
  constexpr std::size_t kPastCaches = std::size_t{8} << 20;  // bytes of scores in all
  const auto heads = static_cast<std::size_t>(args.kv_heads);
  const std::size_t group = static_cast<std::size_t>(args.query_heads) / heads;
  const auto width = static_cast<std::size_t>(args.width);
  const std::size_t pairs = static_cast<std::size_t>(args.sequences) * heads;
  const std::size_t tasks = (width + kTask - 1) / kTask;
  const bool past_caches = pairs * width * sizeof(float) >= kPastCaches;
  cpu.parallel_for(pairs * tasks, [&](std::size_t task, int) {
    const std::size_t pair = task / tasks, first = task % tasks * kTask;
    const auto n = static_cast<std::size_t>(args.kv_tokens[pair / heads]);
    if (first >= n) return;
    const std::size_t at = pair * width + first;
    score_tokens(args.query_codes + pair * group, group, args.key_codes + at,
                 args.key_norms == nullptr ? nullptr : args.key_norms + at,
                 std::min(kTask, n - first), args.scores + at, past_caches);
    if (past_caches) hwy::FlushStream();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run_encode);
HWY_EXPORT(run_score);

void cpu::hata_encode(const HataEncode& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run_encode)(args, cpu);
}

void cpu::hata_score(const HataScore& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run_score)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
