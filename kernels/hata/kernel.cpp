#include "kernels/hata/kernel.h"

#include "kernels/common/argument.h"

namespace kvlane::kernels {

const char* problem(const HataEncode& args) {
  if (args.tokens < 0) return "a negative number of tokens";
  if (args.kv_heads <= 0 || args.heads <= 0 || args.heads % args.kv_heads != 0) {
    return "heads that are not a multiple of the kv heads";
  }
  if (args.head_dim <= 0) return "a head dimension that is not positive";
  if (args.tokens > 0 && (args.x == nullptr || args.weights == nullptr || args.codes == nullptr)) {
    return "no vectors, no weights or no output";
  }
  return nullptr;
}

const char* problem(const HataScore& args) {
  if (args.sequences < 0 || args.width < 0) return "a negative size";
  if (const char* found = problem_of_heads(args.query_heads, args.kv_heads)) return found;
  if (args.query_heads / args.kv_heads > 4096) return "more than 4096 query heads a kv head";
  for (int i = 0; i < args.sequences; ++i) {
    if (args.kv_tokens[i] < 0 || args.kv_tokens[i] > args.width) {
      return "a sequence that is longer than its codes";
    }
  }
  if (args.sequences > 0 && args.width > 0 &&
      (args.query_codes == nullptr || args.key_codes == nullptr || args.scores == nullptr)) {
    return "no codes or no scores";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
