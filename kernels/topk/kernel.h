#pragma once
// The k largest scores of each row, exact. Ties are decided by position: the lower one wins, so
// that every backend returns the same set bit for bit. -0 equals +0. A NaN is below every number.

#include <cstdint>

#include "kernels/common/cpu.h"

namespace kvlane::kernels {

struct TopK {
  int rows = 0;
  int width = 0;                    // of a row of scores
  const float* scores = nullptr;    // [rows][width]
  const std::int32_t* n = nullptr;  // [rows]: how many of a row count; null: width
  int k = 0;                        // above n: all n are chosen
  std::int32_t* index = nullptr;    // [rows][k]: positions, ascending; past the count -1
  std::int32_t* count = nullptr;    // [rows]: min(k, n)
};

const char* problem(const TopK& args);

namespace ref {
void topk(const TopK& args);
}
namespace cpu {
void topk(const TopK& args, Cpu& cpu);
}

}  // namespace kvlane::kernels
