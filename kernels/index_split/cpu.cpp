// Version 1: one pass a row, without branches: every entry is written both as the next local and,
// into scratch, as the next remote one, and only one of the two places moves on.

#include <algorithm>
#include <cstring>

#include "kernels/common/argument.h"
#include "kernels/index_split/kernel.h"

namespace kvlane::kernels {

void cpu::index_split(const IndexSplit& args, Cpu& cpu) {
  require(problem(args));
  const auto heads = static_cast<std::size_t>(args.kv_heads);
  constexpr std::size_t kTask = 4096;  // entries, 10 us: fewer are not worth a second thread
  const auto width = static_cast<std::size_t>(args.index_width);
  const auto blocks = static_cast<std::size_t>(args.blocks);
  const auto block_tokens = static_cast<unsigned>(args.block_tokens);
  const std::size_t words = (blocks * block_tokens + 63) / 64;
  auto* memory = static_cast<std::int32_t*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * (width + 1) * sizeof(std::int32_t)));
  cpu.parallel_for(
      static_cast<std::size_t>(args.sequences) * heads,
      [&](std::size_t pair, int worker) {
        std::int32_t* remote = memory + static_cast<std::size_t>(worker) * (width + 1);
        std::int32_t* split = args.split + pair * width;
        const std::int32_t* index = args.index + pair * width;
        const std::uint8_t* mask = args.block_mask + pair / heads * blocks;
        const std::uint64_t* bits =
            args.row_bits == nullptr ? nullptr : args.row_bits + pair * words;
        const std::size_t count =
            args.index_count == nullptr ? width : static_cast<std::size_t>(args.index_count[pair]);
        std::size_t local = 0, away = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const auto token = static_cast<unsigned>(index[i]);
          std::size_t here = mask[token / block_tokens] == 1;
          if (bits != nullptr) here |= bits[token / 64] >> (token % 64) & 1;
          split[local] = index[i];
          remote[away] = index[i];
          local += here;
          away += 1 - here;
        }
        args.local_count[pair] = static_cast<std::int32_t>(local);
        std::copy_n(remote, away, split + local);
        std::fill(split + count, split + width, -1);
      },
      std::max<std::size_t>(1, kTask / std::max<std::size_t>(1, width)));
}

}  // namespace kvlane::kernels
