#include "kernels/infinigen/kernel.h"

#include "kernels/common/argument.h"

namespace kvlane::kernels {

const char* problem(const InfinigenProject& args) {
  if (args.tokens < 0) return "a negative number of tokens";
  if (args.kv_heads <= 0 || args.heads <= 0 || args.heads % args.kv_heads != 0) {
    return "heads that are not a multiple of the kv heads";
  }
  if (args.head_dim <= 0) return "a head dimension that is not positive";
  if (args.channels_kept <= 0 || args.channels_kept > args.head_dim) {
    return "kept channels outside 1 ... head_dim";
  }
  if (args.skew == nullptr || args.channels == nullptr) return "no skew or no channels";
  for (int i = 0; i < args.kv_heads * args.channels_kept; ++i) {
    if (args.channels[i] < 0 || args.channels[i] >= args.head_dim) {
      return "a kept channel that the head does not have";
    }
  }
  if (args.tokens > 0 && (args.x == nullptr || args.partial == nullptr)) {
    return "no vectors or no output";
  }
  return nullptr;
}

const char* problem(const InfinigenScore& args) {
  if (args.sequences < 0 || args.width < 0) return "a negative size";
  if (const char* found = problem_of_heads(args.query_heads, args.kv_heads)) return found;
  if (args.channels_kept <= 0) return "no kept channels";
  if (args.cap < 0) return "a negative cap";
  if (!(args.alpha >= 0)) return "an alpha that is not a number of 0 or more";
  for (int i = 0; i < args.sequences; ++i) {
    if (args.kv_tokens[i] < 0 || args.kv_tokens[i] > args.width) {
      return "a sequence that is longer than its keys";
    }
  }
  if (args.take == nullptr) return "no output";
  if (args.sequences > 0 && args.width > 0 &&
      (args.query == nullptr || args.keys == nullptr || args.scores == nullptr)) {
    return "no queries, no keys or no scores";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
