#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/common/argument.h"
#include "kernels/topk/kernel.h"

namespace kvlane::kernels {

void ref::topk(const TopK& args) {
  require(problem(args));
  for (int row = 0; row < args.rows; ++row) {
    const float* scores =
        args.scores + static_cast<std::size_t>(row) * static_cast<std::size_t>(args.width);
    const int n = args.n == nullptr ? args.width : args.n[row];
    const int k = std::min(args.k, n);
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    // Stable: of equal scores the lower position stays first.
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      if (std::isnan(scores[b])) return !std::isnan(scores[a]);
      return scores[a] > scores[b];  // false where a is NaN
    });
    std::sort(order.begin(), order.begin() + k);
    std::int32_t* index =
        args.index + static_cast<std::size_t>(row) * static_cast<std::size_t>(args.k);
    std::fill(std::copy_n(order.begin(), k, index), index + args.k, -1);
    args.count[row] = k;
  }
}

}  // namespace kvlane::kernels
