#pragma once
// CUDA's language for a plain C++ compiler: keywords, built-in variables and the intrinsics that
// kernels here use, carried out by the executor. kernels/common/device.h includes it where the
// compiler is not nvcc. Left out on purpose: __activemask(), which kernels must not need.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/support/cuda_host/executor.h"

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

// Values, not variables: lanes share one OS thread, and ThreadSanitizer would call it a race.
#define threadIdx (::cuda_host::thread_idx())
#define blockIdx (::cuda_host::block_idx())
#define blockDim (::cuda_host::block_dim())
#define gridDim (::cuda_host::grid_dim())

// NOLINTBEGIN(readability-identifier-naming): these are CUDA's names.

#define KVLANE_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define KVLANE_SITE (::cuda_host::Site{file, line})

// ---- barriers and fences ----
inline void __syncthreads(KVLANE_SITE_PARAMETERS) {
  cuda_host::sync_threads(cuda_host::BarrierResult::none, 0, "__syncthreads", KVLANE_SITE);
}
inline int __syncthreads_count(int predicate, KVLANE_SITE_PARAMETERS) {
  return cuda_host::sync_threads(cuda_host::BarrierResult::count, predicate, "__syncthreads_count",
                                 KVLANE_SITE);
}
inline int __syncthreads_and(int predicate, KVLANE_SITE_PARAMETERS) {
  return cuda_host::sync_threads(cuda_host::BarrierResult::all, predicate, "__syncthreads_and",
                                 KVLANE_SITE);
}
inline int __syncthreads_or(int predicate, KVLANE_SITE_PARAMETERS) {
  return cuda_host::sync_threads(cuda_host::BarrierResult::any, predicate, "__syncthreads_or",
                                 KVLANE_SITE);
}
inline void __threadfence_block() { cuda_host::fence_block(); }
inline void __threadfence() { cuda_host::fence_device(); }
inline void __threadfence_system() { cuda_host::fence_device(); }

namespace cuda_host {

template <typename T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
T collective(WarpOp op, const char* name, unsigned mask, std::uint64_t in, Site site,
             int operand = 0, int width = 32) {
  WarpCall call;
  call.op = op;
  call.mask = mask;
  call.site = site;
  call.name = name;
  call.in = in;
  call.operand = operand;
  call.width = width;
  warp_collective(call);
  return from_bits<T>(call.out);
}

}  // namespace cuda_host

// ---- warp collectives ----
inline void __syncwarp(unsigned mask = 0xffffffffu, KVLANE_SITE_PARAMETERS) {
  cuda_host::collective<int>(cuda_host::WarpOp::sync, "__syncwarp", mask, 0, KVLANE_SITE);
}
#define KVLANE_SHUFFLE(name, op, Operand)                                                   \
  template <typename T>                                                                     \
  T name(unsigned mask, T value, Operand operand, int width = 32, KVLANE_SITE_PARAMETERS) { \
    return ::cuda_host::collective<T>(::cuda_host::WarpOp::op, #name, mask,                 \
                                      ::cuda_host::to_bits(value), KVLANE_SITE,             \
                                      static_cast<int>(operand), width);                    \
  }
KVLANE_SHUFFLE(__shfl_sync, shuffle, int)
KVLANE_SHUFFLE(__shfl_up_sync, shuffle_up, unsigned)
KVLANE_SHUFFLE(__shfl_down_sync, shuffle_down, unsigned)
KVLANE_SHUFFLE(__shfl_xor_sync, shuffle_xor, int)
#undef KVLANE_SHUFFLE
#define KVLANE_VOTE(name, op, Result)                                                            \
  inline Result name(unsigned mask, int predicate, KVLANE_SITE_PARAMETERS) {                     \
    return ::cuda_host::collective<Result>(::cuda_host::WarpOp::op, #name, mask, predicate != 0, \
                                           KVLANE_SITE);                                         \
  }
KVLANE_VOTE(__ballot_sync, ballot, unsigned)
KVLANE_VOTE(__any_sync, any, int)
KVLANE_VOTE(__all_sync, all, int)
#undef KVLANE_VOTE
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, KVLANE_SITE_PARAMETERS) {
  return cuda_host::collective<unsigned>(cuda_host::WarpOp::match_any, "__match_any_sync", mask,
                                         cuda_host::to_bits(value), KVLANE_SITE);
}
#define KVLANE_REDUCE(name, op, T)                                               \
  inline T name(unsigned mask, T value, KVLANE_SITE_PARAMETERS) {                \
    return ::cuda_host::collective<T>(::cuda_host::WarpOp::op, #name, mask,      \
                                      ::cuda_host::to_bits(value), KVLANE_SITE); \
  }
KVLANE_REDUCE(__reduce_add_sync, add, unsigned)
KVLANE_REDUCE(__reduce_add_sync, add, int)
KVLANE_REDUCE(__reduce_min_sync, min_unsigned, unsigned)
KVLANE_REDUCE(__reduce_min_sync, min_signed, int)
KVLANE_REDUCE(__reduce_max_sync, max_unsigned, unsigned)
KVLANE_REDUCE(__reduce_max_sync, max_signed, int)
KVLANE_REDUCE(__reduce_and_sync, bit_and, unsigned)
KVLANE_REDUCE(__reduce_or_sync, bit_or, unsigned)
KVLANE_REDUCE(__reduce_xor_sync, bit_xor, unsigned)
#undef KVLANE_REDUCE

// ---- atomics: relaxed, so that ThreadSanitizer judges them as CUDA does ----
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  } else {
    T old, sum;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do {
      sum = old + value;
    } while (!__atomic_compare_exchange(at, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
  }
}
template <typename T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  T old;
  __atomic_exchange(at, &value, &old, __ATOMIC_RELAXED);
  return old;
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange(at, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// ---- integers ----
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (shift & 31u));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((((std::uint64_t{high} << 32) | low) << (shift & 31u)) >> 32);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = (std::uint64_t{y} << 32) | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xfu;
    auto byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7u))) & 0xffu;
    if ((nibble & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}
template <typename Byte, typename Sum>
Sum cuda_host_dp4a(unsigned a, unsigned b, Sum c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<Sum>(static_cast<Byte>(a >> (8 * i))) *
         static_cast<Sum>(static_cast<Byte>(b >> (8 * i)));
  }
  return c;
}
inline int __dp4a(int a, int b, int c) {
  return cuda_host_dp4a<std::int8_t>(static_cast<unsigned>(a), static_cast<unsigned>(b), c);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return cuda_host_dp4a<std::uint8_t>(a, b, c);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}

// ---- floats ----
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
using std::max;
using std::min;

template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T __ldcg(const T* at) {
  return *at;
}
template <typename T>
T __ldcs(const T* at) {
  return *at;
}
template <typename T>
void __stcs(T* at, T value) {
  *at = value;
}
// NOLINTEND(readability-identifier-naming)

namespace kvlane::kernels::cuda {

// The lowest address stands for the object: one a type and name.
template <typename T, auto kName>
T& host_shared() {
  static constexpr char kKey = 0;
  return *static_cast<T*>(cuda_host::shared_object(&kKey, sizeof(T), alignof(T)));
}
template <typename T>
T* host_dynamic_shared() {
  return static_cast<T*>(cuda_host::dynamic_shared_object(16));
}

}  // namespace kvlane::kernels::cuda
