#include "calibrate/measure/cpu_cache.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kvlane::calibrate {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPiece = std::size_t{256} << 10U;  // what a thread takes at a time

__attribute__((target("clflushopt"))) void forget(const std::byte* from, const std::byte* to) {
  for (; from < to; from += kLine) {
    _mm_clflushopt(const_cast<void*>(static_cast<const void*>(from)));
  }
  _mm_sfence();
}

}  // namespace

bool can_forget_lines() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

void forget_lines(const std::byte* from, std::size_t bytes, kernels::Cpu& cpu) {
  cpu.parallel_for((bytes + kPiece - 1) / kPiece, [&](std::size_t piece, int) {
    const std::size_t at = piece * kPiece;
    forget(from + at, from + std::min(bytes, at + kPiece));
  });
}

#else

bool can_forget_lines() { return false; }
void forget_lines(const std::byte*, std::size_t, kernels::Cpu&) {}

#endif

}  // namespace kvlane::calibrate
