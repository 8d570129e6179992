#include <numeric>

#include "kernels/common/argument.h"
#include "kernels/common/attend_ref.h"
#include "kernels/prefill_attention/kernel.h"

namespace kvlane::kernels {

void ref::prefill_attention(const PrefillAttention& args) {
  require(problem(args));
  const int group = args.query_heads / args.kv.kv_heads;
  std::size_t at = 0;
  for (int s = 0; s < args.sequences; ++s) {
    for (int i = 0; i < args.new_tokens[s]; ++i) {
      const int position = args.kv_tokens[s] - args.new_tokens[s] + i;
      const int first = args.window > 0 ? std::max(0, position + 1 - args.window) : 0;
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(position + 1 - first));
      std::iota(tokens.begin(), tokens.end(), first);
      for (int h = 0; h < args.query_heads; ++h) {
        attend({&args.kv, s, h / group, args.scale, args.soft_cap}, tokens, args.query, args.out,
               at);
        at += static_cast<std::size_t>(args.kv.head_dim);
      }
    }
  }
}

}  // namespace kvlane::kernels
