#pragma once
// PTX instructions that CUDA C++ has no name for, one a wrapper (PTX ISA 8.2 and later). The asm
// lines are the only code that the host executor never runs: short, checked against the ISA, and
// not to be touched without a GPU at hand. nvcc's own host pass compiles neither branch.
// Instructions of sm_80 fall back on sm_75 where that costs only time (cp.async); where they do not
// (mma.sync with bf16) the wrapper is missing there and a kernel that needs it does not compile.

#include <cstdint>

#include "kernels/common/device.h"
#if !defined(__CUDACC__)
#include "tests/support/cuda_host/ptx.h"
#endif

#if defined(__CUDA_ARCH__)
#define KVLANE_DEVICE_PASS 1
#else
#define KVLANE_DEVICE_PASS 0
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KVLANE_DEVICE_SM80 1
#else
#define KVLANE_DEVICE_SM80 0
#endif

namespace kvlane::kernels::cuda {

#if defined(__CUDACC__)

// 16 bytes that are read once: through the read-only path, not kept in L1. 16-byte aligned.
__device__ __forceinline__ uint4 load_once(const void* at) {
  uint4 v{};
#if KVLANE_DEVICE_PASS
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
#else
  (void)at;
#endif
  return v;
}

// 2^x, relative error up to 2^-22; ftz. exp2_approx(-inf) = 0, NaN stays NaN.
__device__ __forceinline__ float exp2_approx(float x) {
  float y = 0;
#if KVLANE_DEVICE_PASS
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
#else
  (void)x;
#endif
  return y;
}

// 16 bytes from global to shared memory, asynchronous from sm_80 on; both addresses 16-byte
// aligned. `valid` false: zeros are written and `from` is not read (it must be an aligned address
// still).
__device__ __forceinline__ void async_copy_16(void* to_shared, const void* from,
                                              bool valid = true) {
#if KVLANE_DEVICE_SM80
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(to_shared) = valid ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#endif
}
// Closes the group of the copies issued since the last one.
__device__ __forceinline__ void async_copy_commit() {
#if KVLANE_DEVICE_SM80
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until at most kGroupsInFlight of the newest groups of this thread may be incomplete. Other
// threads see the copies after a barrier only.
template <int kGroupsInFlight>
__device__ __forceinline__ void async_copy_wait() {
#if KVLANE_DEVICE_SM80
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsInFlight) : "memory");
#endif
}

// Four 8x8 matrices of 16-bit elements; lanes 8m to 8m+7 give the rows (16 bytes, aligned) of
// matrix m. Lane i gets elements 2 (i % 4) and the next of row i / 4; transposed: of column i / 4.
__device__ __forceinline__ void load_matrix_x4(std::uint32_t (&r)[4], const void* row_in_shared) {
#if KVLANE_DEVICE_PASS
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row_in_shared));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
#endif
}
__device__ __forceinline__ void load_matrix_x4_transposed(std::uint32_t (&r)[4],
                                                          const void* row_in_shared) {
#if KVLANE_DEVICE_PASS
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row_in_shared));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
#endif
}

// c[16][8] += a[16][k] b[k][8], spread over the warp (PTX ISA, "Matrix Fragments").
#define KVLANE_MMA(shape_and_types, constraint)                                    \
  asm volatile("mma.sync.aligned." shape_and_types                                 \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
               : "+" constraint(c[0]), "+" constraint(c[1]), "+" constraint(c[2]), \
                 "+" constraint(c[3])                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#if KVLANE_DEVICE_SM80 || !KVLANE_DEVICE_PASS
__device__ __forceinline__ void multiply_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2]) {
#if KVLANE_DEVICE_SM80
  KVLANE_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
#endif
}
__device__ __forceinline__ void multiply_fp16(float (&c)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2]) {
#if KVLANE_DEVICE_SM80
  KVLANE_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#endif
}
__device__ __forceinline__ void multiply_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                            const std::uint32_t (&b)[2]) {
#if KVLANE_DEVICE_SM80
  KVLANE_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
#endif
}
__device__ __forceinline__ void multiply_u8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                            const std::uint32_t (&b)[2]) {
#if KVLANE_DEVICE_SM80
  KVLANE_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
#endif
}
#endif
#undef KVLANE_MMA

#endif  // __CUDACC__

}  // namespace kvlane::kernels::cuda
