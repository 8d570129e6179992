#pragma once
// The lives of rows, drawn once a layer and shared by all of them.
//
// Given the layer, whether a row is selected at step s depends on its z alone:
//   own + y(s) > theta(s) + recency(age) - common        (own and common: the two parts of u)
// The left side is one of kPaths sample paths, the right side one of some tens of levels; so the
// whole life of a row, births and deaths, is one entry of the table [level][path]. Neighbouring
// paths go to the heads of one token. A row costs one look-up, however many steps there are.
//
// Half of the paths mirror the other half (same own, -y) and y is scaled to its variance at every
// step, so that the library's own sampling error moves the counts by few percent only.

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/rng.h"
#include "sim/select/selection_spec.h"

namespace kvlane::select {

class LifeLibrary {
 public:
  static constexpr std::uint32_t kPaths = 256;
  static constexpr int kFraction = 16;  // fraction bits of a level

  // theta: one a step of the library. `past`: the steps run backwards from step -1 (theta[0] is the
  // first, most negative step); needs the same `paths` stream as the library of the steps >= 0.
  LifeLibrary(const LayerSelection& layer, double head_correlation, std::int64_t heads,
              std::span<const double> theta, Rng paths, Rng innovations, bool past);

  std::int64_t steps() const { return steps_; }
  std::int64_t levels() const { return levels_; }
  std::size_t words() const { return words_; }  // of 64 steps, a life
  std::int64_t heads() const { return heads_; }

  // Level of a row whose right side is theta_ref + recency - common, as a fixed-point number; above
  // levels() never selected, below 0 like level 0. `common` in units of 2^-16.
  std::int64_t level_of_recency(double recency) const;
  std::int64_t level_of_common(std::int32_t common) const { return (common_scale_ * common) >> 16; }
  double level_width() const { return width_; }

  // Step of the first selection, steps() when there is none; entries of consecutive paths follow.
  const std::uint16_t* first(std::int64_t level, std::uint32_t path) const {
    return first_.data() + static_cast<std::size_t>(level) * stride_ + path;
  }
  // Bit s of word s / 64: selected at step s. [head][word]
  const std::uint64_t* life(std::int64_t level, std::uint32_t path) const {
    return lives_.data() + (static_cast<std::size_t>(level) * stride_ + path) * words_;
  }
  // No head of a token that starts at this path is ever selected on this level or above.
  std::uint16_t highest_reach(std::uint32_t path) const { return highest_reach_[path]; }
  // Levels of path `path` that are selected at a step: all below this one.
  std::uint16_t reach(std::uint32_t path, std::int64_t step) const {
    return reach_[path * static_cast<std::size_t>(steps_) + static_cast<std::size_t>(step)];
  }

 private:
  void draw_values(const LayerSelection& layer, double own_weight, Rng& paths, Rng& innovations,
                   bool past, std::vector<float>& values) const;
  void set_levels(std::vector<float>& values, std::span<const double> theta);
  void make_lives();

  std::int64_t steps_ = 0, heads_ = 0, levels_ = 0;
  std::size_t words_ = 0, stride_ = 0;
  double low_ = 0, width_ = 0, theta_ref_ = 0;
  std::int64_t common_scale_ = 0;
  std::vector<std::uint16_t> reach_, first_, highest_reach_;
  std::vector<std::uint64_t> lives_;
};

}  // namespace kvlane::select
