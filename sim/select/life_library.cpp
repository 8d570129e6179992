#include "sim/select/life_library.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/check.h"
#include "sim/select/gauss.h"
#include "sim/select/step_counter.h"

namespace kvlane::select {
namespace {

constexpr double kLevelWidth = 0.2;  // of z, whose variance is 1; rows are dithered between levels
constexpr double kReach = 3.6;       // levels span so many standard deviations to either side
constexpr double kMostLevels = 120;
constexpr std::int64_t kPathsAtLeast = 128;  // in each half
constexpr std::int64_t kGroupsAtLeast = 16;

// Five normal draws a random word.
class NormalStream {
 public:
  explicit NormalStream(Rng& rng) : rng_(rng) {}
  float next() {
    if (left_ == 0) {
      word_ = rng_();
      left_ = 5;
    }
    --left_;
    const float value = table_.of_bin(word_);
    word_ >>= NormalTable::kBits;
    return value;
  }

 private:
  Rng& rng_;
  const NormalTable& table_ = NormalTable::instance();
  std::uint64_t word_ = 0;
  int left_ = 0;
};

// A random order of 0 .. n-1.
std::vector<std::size_t> shuffled(std::size_t n, Rng& rng) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// Quantiles for `groups` groups of `heads` paths, one in each of groups * heads strata, such that
// every head has one in each of `groups` coarser strata. [group][head]
std::vector<double> stratified(std::size_t groups, std::size_t heads, Rng& rng) {
  std::vector<double> quantile(groups * heads);
  std::vector<std::vector<std::size_t>> fine;  // of a coarse stratum: which head has which part
  for (std::size_t q = 0; q < groups; ++q) fine.push_back(shuffled(heads, rng));
  for (std::size_t h = 0; h < heads; ++h) {
    const auto coarse = shuffled(groups, rng);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t stratum = coarse[g] * heads + fine[coarse[g]][h];
      quantile[g * heads + h] =
          (static_cast<double>(stratum) + rng.uniform()) / static_cast<double>(groups * heads);
    }
  }
  return quantile;
}

}  // namespace

LifeLibrary::LifeLibrary(const LayerSelection& layer, double head_correlation, std::int64_t heads,
                         std::span<const double> theta, Rng paths, Rng innovations, bool past)
    : steps_(static_cast<std::int64_t>(theta.size())), heads_(heads) {
  KVLANE_CHECK(steps_ > 0, "{} steps", steps_);
  KVLANE_CHECK(heads > 0 && heads <= 255, "{} kv heads", heads);  // packed counts are bytes
  groups_ = static_cast<std::uint32_t>(2 * std::max(kGroupsAtLeast, kPathsAtLeast / heads));
  words_ = static_cast<std::size_t>((steps_ + 63) / 64);
  const double own = layer.w_static * (1 - head_correlation);
  std::vector<float> values(groups_ * static_cast<std::size_t>(heads) * theta.size());
  draw_values(layer, std::sqrt(own), paths, innovations, past, values);
  set_levels(values, std::sqrt(own + layer.w_ar + layer.w_noise), theta);
  common_scale_ = static_cast<std::int64_t>(
      settle(std::sqrt(layer.w_static * head_correlation) / width_) * (1 << kFraction));
  make_lives();
}

// values[path][step] = own + y(step).
void LifeLibrary::draw_values(const LayerSelection& layer, double own_weight, Rng& paths,
                              Rng& innovations, bool past, std::vector<float>& values) const {
  const auto steps = static_cast<std::size_t>(steps_);
  const std::size_t half = groups_ / 2 * static_cast<std::size_t>(heads_);
  // Own and x(0) come from the stream of the paths: the past and the future share them.
  const auto quantile = stratified(groups_ / 2, static_cast<std::size_t>(heads_), paths);
  const auto sx = static_cast<float>(std::sqrt(layer.w_ar));
  const auto sn = static_cast<float>(std::sqrt(layer.w_noise));
  const auto rho = static_cast<float>(layer.rho);
  const auto fresh = static_cast<float>(std::sqrt(std::max(0.0, 1 - layer.rho * layer.rho)));
  NormalStream start(paths), draw(innovations);
  // An AR(1) process of normal draws is the same backwards: the past runs down from x(0).
  for (std::size_t r = 0; r < half; ++r) {
    float x = start.next();
    float* row = values.data() + r * steps;
    for (std::size_t i = 0; i < steps; ++i) {
      if (past || i > 0) x = rho * x + fresh * draw.next();
      row[past ? steps - 1 - i : i] = sx * x + sn * draw.next();
    }
  }
  // Scale to the variance that the model has at every step, then add own and mirror.
  const auto want = static_cast<float>((layer.w_ar + layer.w_noise) * static_cast<double>(half));
  std::vector<float> scale(steps, 0.0F);
  for (std::size_t r = 0; r < half; ++r) {
    const float* row = values.data() + r * steps;
    for (std::size_t s = 0; s < steps; ++s) scale[s] += row[s] * row[s];
  }
  for (float& s : scale) s = s > 0 ? std::sqrt(want / s) : 0;
  for (std::size_t r = 0; r < half; ++r) {
    const auto own =
        static_cast<float>(own_weight * NormalTable::instance().of_uniform(quantile[r]));
    float* row = values.data() + r * steps;
    float* mirror = row + half * steps;
    for (std::size_t s = 0; s < steps; ++s) {
      const float y = row[s] * scale[s];
      row[s] = own + y;
      mirror[s] = own - y;
    }
  }
}

// Level j is d = low + j width; a path is selected where own + y - (theta - theta_ref) > d, that is
// on the levels 0 .. reach - 1.
void LifeLibrary::set_levels(const std::vector<float>& values, double spread,
                             std::span<const double> theta) {
  const auto steps = theta.size();
  const auto [lowest, highest] = std::minmax_element(theta.begin(), theta.end());
  theta_ref_ = theta[0];
  low_ = theta_ref_ - *highest - kReach * spread;
  const double range = *highest - *lowest + 2 * kReach * spread;
  const double levels = std::clamp(range / kLevelWidth, 2.0, kMostLevels);
  levels_ = static_cast<std::int64_t>(levels);
  width_ = std::max(range, 1e-3) / static_cast<double>(levels_);
  // (value - theta + theta_ref - low) / width + 1, cut to 0 .. levels.
  const auto factor = static_cast<float>(1 / width_);
  const auto top = static_cast<float>(levels_);
  std::vector<float> offset(steps);
  for (std::size_t s = 0; s < steps; ++s) {
    offset[s] = static_cast<float>((theta_ref_ - theta[s] - low_) / width_ + 1);
  }
  reach_.resize(values.size());
  for (std::size_t r = 0; r < values.size(); r += steps) {
    const float* from = values.data() + r;
    std::uint8_t* to = reach_.data() + r;
    for (std::size_t s = 0; s < steps; ++s) {
      float at = from[s] * factor + offset[s];
      at = at < top ? at : top;
      at = at > 0 ? at : 0;
      to[s] = static_cast<std::uint8_t>(static_cast<std::int32_t>(at));
    }
  }
}

void LifeLibrary::make_lives() {
  const auto levels = static_cast<std::size_t>(levels_);
  const auto steps = static_cast<std::size_t>(steps_), heads = static_cast<std::size_t>(heads_);
  const std::size_t paths = groups_ * heads, row = paths * words_;
  lives_.assign(levels * row, 0);
  highest_reach_.assign(groups_, 0);
  for (std::size_t r = 0; r < paths; ++r) {
    const std::uint8_t* reach = reach_.data() + r * steps;
    std::uint8_t& highest = highest_reach_[r / heads];
    for (std::size_t s = 0; s < steps; ++s) {
      if (reach[s] == 0) continue;
      highest = std::max(highest, reach[s]);
      lives_[(reach[s] - 1U) * row + r * words_ + s / 64] |= std::uint64_t{1} << (s % 64);
    }
  }
  // Selected on a level means selected on all below.
  for (std::size_t j = levels - 1; j-- > 0;) {
    std::uint64_t* to = lives_.data() + j * row;
    for (std::size_t i = 0; i < row; ++i) to[i] |= to[i + row];
  }
}

std::int64_t LifeLibrary::level_of_recency(double recency) const {
  return static_cast<std::int64_t>(settle((theta_ref_ + recency - low_) / width_) *
                                   (1 << kFraction));
}

std::vector<std::uint64_t> LifeLibrary::packed_births() const {
  const std::size_t sets = static_cast<std::size_t>(levels_) * groups_;
  const auto heads = static_cast<std::size_t>(heads_);
  std::vector<std::uint64_t> packed(sets * 8 * words_);
  for (std::size_t i = 0; i < sets; ++i) {
    const std::uint64_t* life = lives_.data() + i * heads * words_;
    for (std::size_t h = 0; h < heads; ++h, life += words_) {
      const std::size_t step = first_step(life, words_);
      if (step < 64 * words_) {
        packed[i * 8 * words_ + step / 8] += std::uint64_t{1} << (8 * (step % 8));
      }
    }
  }
  return packed;
}

std::vector<std::uint64_t> LifeLibrary::packed_counts() const {
  const std::size_t sets = static_cast<std::size_t>(levels_) * groups_;
  const auto heads = static_cast<std::size_t>(heads_);
  std::vector<std::uint64_t> packed(sets * 8 * words_);
  for (std::size_t i = 0; i < sets; ++i) {
    for (std::size_t h = 0; h < heads; ++h) {
      add_spread(packed.data() + i * 8 * words_, lives_.data() + (i * heads + h) * words_, words_);
    }
  }
  return packed;
}

}  // namespace kvlane::select
