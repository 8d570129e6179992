#include "tests/support/cuda_host/mma.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace cuda_host {
namespace {

template <typename T>
T element_of(const std::uint32_t* registers, int element) {
  T value;
  std::memcpy(
      &value,
      reinterpret_cast<const char*>(registers) + static_cast<std::size_t>(element) * sizeof(T),
      sizeof value);
  return value;
}

float number(__nv_bfloat16 value) { return __bfloat162float(value); }
float number(__half value) { return __half2float(value); }
std::int32_t number(std::int8_t value) { return value; }
std::int32_t number(std::uint8_t value) { return value; }

// D = A B + C. Sum is float for 16-bit operands; the GPU adds in an order of its own, so tests of
// kernels leave room for that.
template <typename T, typename Sum, int kK>
void multiply(const std::array<WarpCall*, 32>& calls) {
  constexpr int kPerRegister = static_cast<int>(4 / sizeof(T));
  constexpr auto kA = kPerRegister == 2 ? a_of_k16 : a_of_k32;
  constexpr auto kB = kPerRegister == 2 ? b_of_k16 : b_of_k32;
  constexpr auto kDepth = static_cast<std::size_t>(kK);
  Sum a[16][kDepth], b[kDepth][8], c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const WarpCall& call = *calls[static_cast<std::size_t>(lane)];
    for (int i = 0; i < 4 * kPerRegister; ++i) {
      const Place at = kA(lane, i);
      a[at.row][at.column] = number(element_of<T>(call.a, i));
    }
    for (int i = 0; i < 2 * kPerRegister; ++i) {
      const Place at = kB(lane, i);
      b[at.row][at.column] = number(element_of<T>(call.b, i));
    }
    for (int i = 0; i < 4; ++i) {
      const Place at = c_of(lane, i);
      c[at.row][at.column] = element_of<Sum>(call.c, i);
    }
  }
  for (auto& row : c) {
    const auto m = &row - &c[0];
    for (int n = 0; n < 8; ++n) {
      Sum sum = row[n];
      for (int k = 0; k < kK; ++k) sum += a[m][k] * b[k][n];
      row[n] = sum;
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Place at = c_of(lane, i);
      std::memcpy(calls[static_cast<std::size_t>(lane)]->c + i, &c[at.row][at.column], 4);
    }
  }
}

// ldmatrix: lane l of the call has read 16 bytes, row l % 8 of matrix l / 8, into `a`. Register m
// of lane i becomes elements 2 (i % 4) and the next of row i / 4 of matrix m; transposed with
// columns for rows. `width` is the number of matrices, `operand` 1 for transposed.
void load_matrix(const std::array<WarpCall*, 32>& calls) {
  const WarpCall& any = *calls[0];
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < any.width; ++m) {
      std::uint32_t result = 0;
      for (int half = 0; half < 2; ++half) {
        int row = lane / 4, column = 2 * (lane % 4) + half;
        if (any.operand == 1) std::swap(row, column);
        const WarpCall& owner = *calls[static_cast<std::size_t>(8 * m + row)];
        const auto bits = element_of<std::uint16_t>(owner.a, column);
        result |= static_cast<std::uint32_t>(bits) << (16 * half);
      }
      calls[static_cast<std::size_t>(lane)]->c[m] = result;
    }
  }
}

}  // namespace

void complete_matrix(const std::array<WarpCall*, 32>& calls, unsigned mask) {
  const WarpCall& first = *calls[static_cast<std::size_t>(__builtin_ctz(mask))];
  if (mask != 0xffffffffu) fail(first.site, "%s: not the whole warp", first.name);
  switch (first.op) {
    case WarpOp::load_matrix:
      load_matrix(calls);
      break;
    case WarpOp::multiply_bf16:
      multiply<__nv_bfloat16, float, 16>(calls);
      break;
    case WarpOp::multiply_fp16:
      multiply<__half, float, 16>(calls);
      break;
    case WarpOp::multiply_s8:
      multiply<std::int8_t, std::int32_t, 32>(calls);
      break;
    default:
      multiply<std::uint8_t, std::int32_t, 32>(calls);
      break;
  }
}

}  // namespace cuda_host
