#include "kernels/common/argument.h"
#include "kernels/common/attend_ref.h"
#include "kernels/sparse_attention/kernel.h"

namespace kvlane::kernels {

void ref::sparse_attention(const SparseAttention& args) {
  require(problem(args));
  const int group = args.query_heads / args.kv.kv_heads;
  for (int s = 0; s < args.sequences; ++s) {
    for (int h = 0; h < args.query_heads; ++h) {
      const int row = s * args.kv.kv_heads + h / group;
      const int count = args.index_count == nullptr ? args.index_width : args.index_count[row];
      const std::int32_t* first =
          args.index + static_cast<std::size_t>(row) * static_cast<std::size_t>(args.index_width);
      const auto at = static_cast<std::size_t>(s * args.query_heads + h) *
                      static_cast<std::size_t>(args.kv.head_dim);
      attend({&args.kv, s, h / group, args.scale, args.soft_cap}, {first, first + count},
             args.query, args.out, at);
    }
  }
}

}  // namespace kvlane::kernels
