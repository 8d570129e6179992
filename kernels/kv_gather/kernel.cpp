#include "kernels/kv_gather/kernel.h"

namespace kvlane::kernels {

const char* problem(const KvGather& args) {
  if (const char* found = problem(args.kv, args.sequences, args.kv_tokens)) return found;
  if (const char* found = problem(args.kv, args.sequences, args.kv_tokens, args.index,
                                  args.index_count, args.index_width)) {
    return found;
  }
  if (args.sequences > 0 && args.index_width > 0 && args.packed == nullptr) {
    return "no buffer for the packed rows";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
