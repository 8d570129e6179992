#include "kernels/topk/kernel.h"

namespace kvlane::kernels {

const char* problem(const TopK& args) {
  if (args.rows < 0 || args.width < 0 || args.k < 0) return "a negative size";
  if (args.rows == 0) return nullptr;
  if (args.width > 0 && args.scores == nullptr) return "no scores";
  if (args.count == nullptr || (args.k > 0 && args.index == nullptr)) return "no output";
  for (int row = 0; args.n != nullptr && row < args.rows; ++row) {
    if (args.n[row] < 0 || args.n[row] > args.width) return "more scores than a row is wide";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
