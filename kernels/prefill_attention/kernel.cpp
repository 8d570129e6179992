#include "kernels/prefill_attention/kernel.h"

namespace kvlane::kernels {

const char* problem(const PrefillAttention& args) {
  if (const char* found = problem(args.kv, args.sequences, args.kv_tokens)) return found;
  if (args.query_heads <= 0 || args.query_heads % args.kv.kv_heads != 0) {
    return "query heads that are not a multiple of the kv heads";
  }
  if (args.window < 0) return "a negative window";
  if (!(args.soft_cap >= 0)) return "a soft cap that is not a number of 0 or more";
  bool any = false;
  for (int i = 0; i < args.sequences; ++i) {
    if (args.new_tokens[i] < 0 || args.new_tokens[i] > args.kv_tokens[i]) {
      return "more new tokens than the sequence has";
    }
    any |= args.new_tokens[i] > 0;
  }
  if (any && (args.query == nullptr || args.out == nullptr)) return "no query or no output";
  return nullptr;
}

}  // namespace kvlane::kernels
