#pragma once
// From how many tokens the query heads want to how many every row takes; one place for all
// backends.

#include <algorithm>
#include <cstdint>

#include "kernels/infinigen/kernel.h"

namespace kvlane::kernels {

// `wanted`: summed over all sequences and query heads.
inline std::int32_t rows_to_take(const InfinigenScore& args, std::int64_t wanted) {
  const std::int64_t heads = std::int64_t{args.sequences} * args.query_heads;
  std::int64_t take = heads == 0 ? 0 : wanted / heads;
  std::int64_t longest = 0;
  for (int i = 0; i < args.sequences; ++i)
    longest = std::max<std::int64_t>(longest, args.kv_tokens[i]);
  take = std::max<std::int64_t>(take, 1);
  if (args.cap > 0) take = std::min<std::int64_t>(take, args.cap);
  return static_cast<std::int32_t>(std::min(take, longest));
}

}  // namespace kvlane::kernels
