#include "kernels/index_split/kernel.h"

namespace kvlane::kernels {

const char* problem(const IndexSplit& args) {
  if (args.sequences < 0 || args.kv_heads < 0 || args.index_width < 0 || args.blocks < 0) {
    return "a negative size";
  }
  const int pairs = args.sequences * args.kv_heads;
  if (pairs == 0) return nullptr;
  if (args.local_count == nullptr) return "no output";
  if (args.index_width > 0 && (args.index == nullptr || args.split == nullptr)) {
    return "no index or no output";
  }
  if (args.block_tokens <= 0) return "blocks of no tokens";
  if (args.blocks > 0 && args.block_mask == nullptr) return "no mask";
  for (int i = 0; i < args.sequences * args.blocks; ++i) {
    if (args.block_mask[i] != 1 && args.block_mask[i] != 2) {
      return "a mask value that is neither 1 (local) nor 2 (remote)";
    }
  }
  const std::int64_t tokens = std::int64_t{args.blocks} * args.block_tokens;
  for (int pair = 0; pair < pairs; ++pair) {
    const int count = args.index_count == nullptr ? args.index_width : args.index_count[pair];
    if (count < 0 || count > args.index_width) return "more selected rows than the index is wide";
    const std::int32_t* token =
        args.index + static_cast<std::size_t>(pair) * static_cast<std::size_t>(args.index_width);
    for (int i = 0; i < count; ++i) {
      if (token[i] < 0 || token[i] >= tokens) return "a selected row outside the mask";
    }
  }
  return nullptr;
}

}  // namespace kvlane::kernels
