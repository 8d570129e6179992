#pragma once
// The wrappers of kernels/common/ptx.h for the executor. Memory is read and written here, in code
// that is compiled with the kernel, so that sanitizers see who reads what.

#include "tests/support/cuda_host/device.h"

namespace kvlane::kernels::cuda {

inline uint4 load_once(const void* at) { return *static_cast<const uint4*>(at); }

inline float exp2_approx(float x) { return std::exp2(x); }

namespace host {
// Byte by byte: a call of memcpy would be seen as one of the library.
inline void copy(void* to, const void* from, int bytes, int zeros) {
  for (int i = 0; i < bytes; ++i) {
    static_cast<unsigned char*>(to)[i] = static_cast<const unsigned char*>(from)[i];
  }
  for (int i = bytes; i < bytes + zeros; ++i) static_cast<unsigned char*>(to)[i] = 0;
}

inline void load_matrix(std::uint32_t* r, int matrices, bool transposed, const void* row,
                        int owners, const char* name, cuda_host::Site site) {
  uint4 bytes{};
  if (cuda_host::lane_in_warp() < owners) bytes = *static_cast<const uint4*>(row);
  const std::uint32_t mine[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
  cuda_host::WarpCall call;
  call.op = cuda_host::WarpOp::load_matrix;
  call.site = site;
  call.name = name;
  call.operand = transposed ? 1 : 0;
  call.width = matrices;
  call.a = mine;
  call.c = r;
  cuda_host::warp_collective(call);
}

template <typename T>
void multiply(cuda_host::WarpOp op, T (&c)[4], const std::uint32_t (&a)[4],
              const std::uint32_t (&b)[2], const char* name, cuda_host::Site site) {
  std::uint32_t sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = std::bit_cast<std::uint32_t>(c[i]);
  cuda_host::WarpCall call;
  call.op = op;
  call.site = site;
  call.name = name;
  call.a = a;
  call.b = b;
  call.c = sums;
  cuda_host::warp_collective(call);
  for (int i = 0; i < 4; ++i) c[i] = std::bit_cast<T>(sums[i]);
}
}  // namespace host

inline void async_copy_16(void* to_shared, const void* from, bool valid = true,
                          KVLANE_SITE_PARAMETERS) {
  cuda_host::async_copy(to_shared, from, valid ? 16 : 0, valid ? 0 : 16, host::copy, KVLANE_SITE);
}
inline void async_copy_commit() { cuda_host::async_commit(); }
template <int kGroupsInFlight>
void async_copy_wait() {
  cuda_host::async_wait(kGroupsInFlight);
}

inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row_in_shared,
                           KVLANE_SITE_PARAMETERS) {
  host::load_matrix(r, 4, false, row_in_shared, 32, "ldmatrix.x4", KVLANE_SITE);
}
inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row_in_shared,
                                      KVLANE_SITE_PARAMETERS) {
  host::load_matrix(r, 4, true, row_in_shared, 32, "ldmatrix.x4.trans", KVLANE_SITE);
}

inline void multiply_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                          KVLANE_SITE_PARAMETERS) {
  host::multiply(cuda_host::WarpOp::multiply_bf16, c, a, b, "mma.sync bf16", KVLANE_SITE);
}
inline void multiply_fp16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                          KVLANE_SITE_PARAMETERS) {
  host::multiply(cuda_host::WarpOp::multiply_fp16, c, a, b, "mma.sync fp16", KVLANE_SITE);
}
inline void multiply_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                        const std::uint32_t (&b)[2], KVLANE_SITE_PARAMETERS) {
  host::multiply(cuda_host::WarpOp::multiply_s8, c, a, b, "mma.sync s8", KVLANE_SITE);
}
inline void multiply_u8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                        const std::uint32_t (&b)[2], KVLANE_SITE_PARAMETERS) {
  host::multiply(cuda_host::WarpOp::multiply_u8, c, a, b, "mma.sync u8", KVLANE_SITE);
}

}  // namespace kvlane::kernels::cuda
