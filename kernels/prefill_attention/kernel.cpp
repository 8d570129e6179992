#include "kernels/prefill_attention/kernel.h"

#include "kernels/common/argument.h"

namespace kvlane::kernels {

const char* problem(const PrefillAttention& args) {
  if (const char* found = problem(args.kv, args.sequences, args.kv_tokens)) return found;
  if (const char* found = problem_of_heads(args.query_heads, args.kv.kv_heads)) return found;
  if (args.window < 0) return "a negative window";
  if (const char* found = problem_of_soft_cap(args.soft_cap)) return found;
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
