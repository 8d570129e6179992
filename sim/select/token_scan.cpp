#include "sim/select/token_scan.h"

namespace kvlane::select {
namespace {

// A token's age grows by the number of steps during a walk. Where that moves its level by more
// than this, the life is put together from several levels.
constexpr double kFarDrift = 0.75;

}  // namespace

TokenScan::TokenScan(const LayerSelection& layer, const LifeLibrary& library, const TokenGrid& grid,
                     std::int64_t first_step, Rng tokens)
    : library_(library), grid_(grid), first_step_(first_step), rng_(tokens) {
  const std::int64_t rows = grid.prompt_tokens;
  // g ln((a0 + age + steps) / (a0 + age)) < kFarDrift levels  <=  age + a0 > steps g / (drift
  // width)
  const double reach =
      static_cast<double>(library.steps()) * layer.g / (kFarDrift * library.level_width());
  const auto near = static_cast<std::int64_t>(std::max(0.0, reach - layer.a0)) - first_step;
  near_from_ = std::max<std::int64_t>(0, rows - near);
  const std::int64_t middle = rows + first_step + library.steps() / 2;
  for (std::int64_t t = 0; t < near_from_ + 32; t += 16) {
    far_levels_.push_back(
        library.level_of_recency(recency(layer, static_cast<double>(middle - t))));
  }
  const std::int64_t oldest = rows - near_from_ + first_step + library.steps();
  for (std::int64_t age = 0; age <= oldest; ++age) {
    near_levels_.push_back(library.level_of_recency(recency(layer, static_cast<double>(age))));
  }
  lives_.resize(static_cast<std::size_t>(library.heads()) * library.words());
}

// The life of token t: runs of steps, each at one level; none before its query position. Returns
// whether any step selects it at all.
bool TokenScan::compose(std::int64_t t, Draw d) {
  const auto words = library_.words();
  const auto heads = static_cast<std::size_t>(library_.heads());
  const std::int64_t age_at_start =
      grid_.prompt_tokens + first_step_ - t;  // of step 0 of the library
  std::fill(lives_.begin(), lives_.end(), 0);
  bool any = false;
  for (std::int64_t s = std::max<std::int64_t>(0, -age_at_start); s < library_.steps();) {
    const auto level_at = [&](std::int64_t step) {
      const auto age = static_cast<std::size_t>(age_at_start + step);
      return std::max<std::int64_t>(0, (near_levels_[age] + d.offset) >> LifeLibrary::kFraction);
    };
    const std::int64_t level = level_at(s);
    if (level >= library_.highest_reach(d.group)) break;  // age only adds to it
    std::int64_t end = s + 1;
    while (end < library_.steps() && level_at(end) == level) ++end;
    const std::uint64_t* life = library_.lives(level, d.group);
    for (std::size_t w = static_cast<std::size_t>(s / 64); w * 64 < static_cast<std::size_t>(end);
         ++w) {
      const auto low = static_cast<std::int64_t>(w) * 64;
      std::uint64_t mask = ~std::uint64_t{0};
      if (s > low) mask &= ~std::uint64_t{0} << (s - low);
      if (end < low + 64) mask &= ~(~std::uint64_t{0} << (end - low));
      for (std::size_t h = 0; h < heads; ++h) lives_[h * words + w] |= life[h * words + w] & mask;
    }
    any = true;
    s = end;
  }
  return any;
}

}  // namespace kvlane::select
