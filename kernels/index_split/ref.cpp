#include <algorithm>
#include <vector>

#include "kernels/common/argument.h"
#include "kernels/index_split/kernel.h"

namespace kvlane::kernels {

void ref::index_split(const IndexSplit& args) {
  require(problem(args));
  const auto words =
      (static_cast<std::size_t>(args.blocks) * static_cast<std::size_t>(args.block_tokens) + 63) /
      64;
  for (int pair = 0; pair < args.sequences * args.kv_heads; ++pair) {
    const int count = args.index_count == nullptr ? args.index_width : args.index_count[pair];
    const auto at = static_cast<std::size_t>(pair) * static_cast<std::size_t>(args.index_width);
    const auto local = [&](std::int32_t token) {
      const std::uint64_t* bits = args.row_bits == nullptr
                                      ? nullptr
                                      : args.row_bits + static_cast<std::size_t>(pair) * words;
      return args.block_mask[pair / args.kv_heads * args.blocks + token / args.block_tokens] == 1 ||
             (bits != nullptr && (bits[token / 64] >> (token % 64) & 1) != 0);
    };
    std::vector<std::int32_t> row(args.index + at, args.index + at + count);
    const auto remote = std::stable_partition(row.begin(), row.end(), local);
    args.local_count[pair] = static_cast<std::int32_t>(remote - row.begin());
    row.resize(static_cast<std::size_t>(args.index_width), -1);
    std::copy(row.begin(), row.end(), args.split + at);
  }
}

}  // namespace kvlane::kernels
