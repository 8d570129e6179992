#pragma once
// Which element of a matrix each register of a lane holds, for mma.sync and ldmatrix (PTX ISA,
// "Matrix Fragments for mma.m16n8k16 / m16n8k32" and "ldmatrix"), and what the instructions
// compute.

#include <array>
#include <cstdint>

#include "tests/support/cuda_host/executor.h"

namespace cuda_host {

struct Place {
  int row, column;
};

// m16n8k16 with 16-bit operands. A is 16 x 16, elements 0-7; B is 16 x 8, elements 0-3; two a
// register.
constexpr Place a_of_k16(int lane, int element) {
  return {lane / 4 + 8 * (element / 2 % 2), 2 * (lane % 4) + element % 2 + 8 * (element / 4)};
}
constexpr Place b_of_k16(int lane, int element) {
  return {2 * (lane % 4) + element % 2 + 8 * (element / 2), lane / 4};
}
// m16n8k32 with 8-bit operands. A is 16 x 32, elements 0-15; B is 32 x 8, elements 0-7; four a
// register.
constexpr Place a_of_k32(int lane, int element) {
  return {lane / 4 + 8 * (element / 4 % 2), 4 * (lane % 4) + element % 4 + 16 * (element / 8)};
}
constexpr Place b_of_k32(int lane, int element) {
  return {4 * (lane % 4) + element % 4 + 16 * (element / 4), lane / 4};
}
// C and D of both: 16 x 8, elements 0-3, one a register.
constexpr Place c_of(int lane, int element) {
  return {lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2};
}

// The operations from WarpOp::load_matrix on: all lanes of the warp have arrived.
void complete_matrix(const std::array<WarpCall*, 32>& calls, unsigned mask);

}  // namespace cuda_host
