#pragma once
// The lives of rows, drawn once a layer and shared by all of them.
//
// Given the layer, whether a row is selected at step s depends on its z alone:
//   own + y(s) > theta(s) + recency(age) - common        (own and common: the two parts of u)
// The left side is one of some hundred sample paths, the right side one of some tens of levels; so
// the whole life of a row, births and deaths, is one entry of the table [level][path]. The heads of
// a token take a group of paths, one each: a token costs one look-up, however many steps and heads
// there are.
//
// Against sampling error of the library itself: half of the groups mirror the other half (same own,
// -y), y is scaled to its variance at every step, and own is stratified, for each head apart.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/rng.h"
#include "sim/select/selection_spec.h"

namespace kvlane::select {

class LifeLibrary {
 public:
  static constexpr int kFraction = 16;  // fraction bits of a level

  // theta: one a step of the library. `past`: the steps run backwards from step -1 (theta[0] is the
  // first, most negative step); needs the same `paths` stream as the library of the steps >= 0.
  LifeLibrary(const LayerSelection& layer, double head_correlation, std::int64_t heads,
              std::span<const double> theta, Rng paths, Rng innovations, bool past);

  std::int64_t steps() const { return steps_; }
  std::int64_t heads() const { return heads_; }
  std::int64_t levels() const { return levels_; }
  std::uint32_t groups() const { return groups_; }
  std::size_t words() const { return words_; }  // of 64 steps, a life

  // Level of a row whose right side is theta(first) + recency - common, as a fixed-point number: at
  // levels() and above never selected, below 0 like level 0. `common` in units of 2^-16.
  std::int64_t level_of_recency(double recency) const;
  std::int64_t level_of_common(std::int32_t common) const { return (common_scale_ * common) >> 16; }
  double level_width() const { return width_; }

  // Bit s % 64 of word s / 64: selected at step s. [head][word]
  const std::uint64_t* lives(std::int64_t level, std::uint32_t group) const {
    return lives_.data() + (static_cast<std::size_t>(level) * groups_ + group) *
                               static_cast<std::size_t>(heads_) * words_;
  }
  // A path is selected at a step on all levels below this one.
  std::uint8_t reach(std::uint32_t group, std::int64_t head, std::int64_t step) const {
    return reach_[(group * static_cast<std::size_t>(heads_) + static_cast<std::size_t>(head)) *
                      static_cast<std::size_t>(steps_) +
                  static_cast<std::size_t>(step)];
  }
  // No head of the group is ever selected on this level or above.
  std::uint8_t highest_reach(std::uint32_t group) const { return highest_reach_[group]; }

  // By level and group, over the heads: the number of rows first selected (or: selected) at each
  // step, packed as for StepCounter::add_packed. [level][group][8 * words]
  std::vector<std::uint64_t> packed_births() const;
  std::vector<std::uint64_t> packed_counts() const;

 private:
  void draw_values(const LayerSelection& layer, double own_weight, Rng& paths, Rng& innovations,
                   bool past, std::vector<float>& values) const;
  void set_levels(const std::vector<float>& values, double spread, std::span<const double> theta);
  void make_lives();

  std::int64_t steps_ = 0, heads_ = 0, levels_ = 0;
  std::uint32_t groups_ = 0;
  std::size_t words_ = 0;
  double low_ = 0, width_ = 0, theta_ref_ = 0;
  std::int64_t common_scale_ = 0;
  std::vector<std::uint8_t> reach_;          // [group][head][step]
  std::vector<std::uint8_t> highest_reach_;  // [group]
  std::vector<std::uint64_t> lives_;         // [level][group][head][word]
};

}  // namespace kvlane::select
