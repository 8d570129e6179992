#include "kernels/decode_attention/kernel.h"

#include "kernels/common/argument.h"

namespace kvlane::kernels {

const char* problem(const DecodeAttention& args) {
  if (const char* found = problem(args.kv, args.sequences, args.kv_tokens)) return found;
  if (const char* found = problem_of_heads(args.query_heads, args.kv.kv_heads)) return found;
  if (args.window < 0) return "a negative window";
  if (const char* found = problem_of_soft_cap(args.soft_cap)) return found;
  if (args.sequences > 0 && (args.query == nullptr || args.out == nullptr)) {
    return "no query or no output";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
