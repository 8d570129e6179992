#include <numeric>

#include "kernels/common/argument.h"
#include "kernels/common/attend_ref.h"
#include "kernels/decode_attention/kernel.h"

namespace kvlane::kernels {

void ref::decode_attention(const DecodeAttention& args) {
  require(problem(args));
  const int group = args.query_heads / args.kv.kv_heads;
  for (int s = 0; s < args.sequences; ++s) {
    const int n = args.kv_tokens[s];
    const int first = args.window > 0 ? std::max(0, n - args.window) : 0;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n - first));
    std::iota(tokens.begin(), tokens.end(), first);
    for (int h = 0; h < args.query_heads; ++h) {
      const auto at = static_cast<std::size_t>(s * args.query_heads + h) *
                      static_cast<std::size_t>(args.kv.head_dim);
      attend({&args.kv, s, h / group, args.scale, args.soft_cap}, tokens, args.query, args.out, at);
    }
  }
}

}  // namespace kvlane::kernels
