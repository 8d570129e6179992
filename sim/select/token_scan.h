#pragma once
// Walks over the tokens of one layer of one text, in order of position, and tells a visitor the
// life of every row. Each walk makes the same draws, so what is not kept can be made again.
//
// Visitor: begin_block(m), end_block(m);
//   always(n)                    n rows that are selected at every step (sinks)
//   far(level, group)            a token whose heads live like lives(level, group) throughout
//   near(lives)                  a token whose heads' lives are given, [head][word]
//   generated(lives)             the same for a row that decoding made; after the last block

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/select/gauss.h"
#include "sim/select/life_library.h"
#include "sim/select/row_count.h"

namespace kvlane::select {

struct TokenGrid {
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens_per_block = 1;
  std::int64_t blocks = 0;
};

class TokenScan {
 public:
  // `first_step`: of the library, 0 or -kVirtualSteps.
  TokenScan(const LayerSelection& layer, const LifeLibrary& library, const TokenGrid& grid,
            std::int64_t first_step, Rng tokens);

  template <class Visitor>
  void run(Visitor& visitor) {
    const std::int64_t rows = grid_.prompt_tokens;
    for (std::int64_t m = 0; m < grid_.blocks; ++m) {
      visitor.begin_block(m);
      const std::int64_t begin = m * grid_.tokens_per_block;
      const std::int64_t end = std::min(rows, begin + grid_.tokens_per_block);
      std::int64_t t = begin;
      for (; t < std::min(end, kSinks); ++t) {
        draw();
        visitor.always(library_.heads());
      }
      for (; t < std::min(end, near_from_); ++t) {
        const Draw d = draw();
        const std::int64_t level = (far_level(t) + d.offset) >> LifeLibrary::kFraction;
        if (level < library_.highest_reach(d.group))
          visitor.far(std::max<std::int64_t>(0, level), d.group);
      }
      for (; t < end; ++t) {
        if (compose(t, draw())) visitor.near(lives_.data());
      }
      visitor.end_block(m);
    }
    for (std::int64_t t = rows; t < rows + first_step_ + library_.steps(); ++t) {
      if (compose(t, draw())) visitor.generated(lives_.data());
    }
  }

 private:
  struct Draw {
    std::int64_t offset;  // dither minus common, in fixed-point levels
    std::uint32_t group;
  };
  Draw draw() {
    const std::uint64_t bits = rng_();
    const std::int64_t common = library_.level_of_common(normal_.of_20_bits(bits));
    const auto dither = static_cast<std::int64_t>((bits >> 20U) & 0xffffU);
    return {dither - common,
            static_cast<std::uint32_t>(((bits >> 40U) * library_.groups()) >> 24U)};
  }
  // Linear between every 16th token; the recency term bends little there.
  std::int64_t far_level(std::int64_t t) const {
    const auto i = static_cast<std::size_t>(t / 16);
    return far_levels_[i] + (far_levels_[i + 1] - far_levels_[i]) * (t % 16) / 16;
  }
  bool compose(std::int64_t t, Draw d);

  const LifeLibrary& library_;
  TokenGrid grid_;
  std::int64_t first_step_ = 0, near_from_ = 0;
  Rng rng_;
  const NormalTable& normal_ = NormalTable::instance();
  std::vector<std::int64_t> far_levels_;   // of every 16th token
  std::vector<std::int64_t> near_levels_;  // by age
  std::vector<std::uint64_t> lives_;
};

}  // namespace kvlane::select
