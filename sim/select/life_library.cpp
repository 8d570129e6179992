#include "sim/select/life_library.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/check.h"
#include "sim/select/gauss.h"

namespace kvlane::select {
namespace {

constexpr double kLevelWidth = 0.15;  // of z, whose variance is 1; rows are dithered between levels
constexpr std::int64_t kMostLevels = 96;
constexpr std::uint32_t kHalf = LifeLibrary::kPaths / 2;

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

}  // namespace

LifeLibrary::LifeLibrary(const LayerSelection& layer, double head_correlation, std::int64_t heads,
                         std::span<const double> theta, Rng paths, Rng innovations, bool past)
    : steps_(static_cast<std::int64_t>(theta.size())), heads_(heads) {
  KVLANE_CHECK(steps_ > 0 && steps_ < 0xffff, "{} steps", steps_);
  KVLANE_CHECK(heads > 0 && heads <= kHalf, "{} kv heads", heads);
  words_ = static_cast<std::size_t>((steps_ + 63) / 64);
  stride_ = kPaths + static_cast<std::size_t>(heads) - 1;
  std::vector<float> values(static_cast<std::size_t>(kPaths) * theta.size());
  draw_values(layer, std::sqrt(layer.w_static * (1 - head_correlation)), paths, innovations, past,
              values);
  set_levels(values, theta);
  common_scale_ = static_cast<std::int64_t>(
      settle(std::sqrt(layer.w_static * head_correlation) / width_) * (1 << kFraction));
  make_lives();
}

// values[path][step] = own + y(step).
void LifeLibrary::draw_values(const LayerSelection& layer, double own_weight, Rng& paths,
                              Rng& innovations, bool past, std::vector<float>& values) const {
  const auto steps = static_cast<std::size_t>(steps_);
  // Own part: one draw a stratum of 1 / kHalf, dealt to the paths at random. x(0) likewise belongs
  // to the path, since the past and the future share it.
  std::array<std::uint32_t, kHalf> deal{};
  for (std::uint32_t i = 0; i < kHalf; ++i) deal[i] = i;
  for (std::uint32_t i = kHalf; i > 1; --i) std::swap(deal[i - 1], deal[paths.below(i)]);
  std::array<float, kHalf> own{};
  for (std::uint32_t r = 0; r < kHalf; ++r) {
    own[r] = static_cast<float>(
        own_weight * NormalTable::instance().of_uniform((deal[r] + paths.uniform()) / kHalf));
  }
  const auto sx = static_cast<float>(std::sqrt(layer.w_ar));
  const auto sn = static_cast<float>(std::sqrt(layer.w_noise));
  const auto rho = static_cast<float>(layer.rho);
  const auto fresh = static_cast<float>(std::sqrt(std::max(0.0, 1 - layer.rho * layer.rho)));
  NormalStream start(paths), draw(innovations);
  // An AR(1) process of normal draws is the same backwards: the past runs down from x(0).
  for (std::size_t r = 0; r < kHalf; ++r) {
    float x = start.next();
    float* row = values.data() + r * steps;
    for (std::size_t i = 0; i < steps; ++i) {
      if (past || i > 0) x = rho * x + fresh * draw.next();
      row[past ? steps - 1 - i : i] = sx * x + sn * draw.next();
    }
  }
  // Scale to the variance that the model has at every step, then add own and mirror.
  const float want = static_cast<float>(layer.w_ar + layer.w_noise) * static_cast<float>(kHalf);
  std::vector<float> square(steps, 0.0F);
  for (std::size_t r = 0; r < kHalf; ++r) {
    const float* row = values.data() + r * steps;
    for (std::size_t s = 0; s < steps; ++s) square[s] += row[s] * row[s];
  }
  for (float& s : square) s = s > 0 ? std::sqrt(want / s) : 0;
  for (std::size_t r = 0; r < kHalf; ++r) {
    float* row = values.data() + r * steps;
    float* mirror = row + kHalf * steps;
    for (std::size_t s = 0; s < steps; ++s) {
      const float y = row[s] * square[s];
      row[s] = own[r] + y;
      mirror[s] = own[r] - y;
    }
  }
}

void LifeLibrary::set_levels(std::vector<float>& values, std::span<const double> theta) {
  const auto steps = theta.size();
  theta_ref_ = theta[0];
  std::vector<float> shift(steps);
  for (std::size_t s = 0; s < steps; ++s) shift[s] = static_cast<float>(theta[s] - theta_ref_);
  float low = values[0] - shift[0], high = low;
  for (std::size_t r = 0; r < kPaths; ++r) {
    float* row = values.data() + r * steps;
    for (std::size_t s = 0; s < steps; ++s) {
      row[s] -= shift[s];
      low = std::min(low, row[s]);
      high = std::max(high, row[s]);
    }
  }
  low_ = static_cast<double>(low);
  const double range = static_cast<double>(high) - low_;
  levels_ =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(range / kLevelWidth) + 2, 2, kMostLevels);
  width_ = std::max(range, 1e-3) / static_cast<double>(levels_ - 1);
  // Level j is d = low + j width; selected where the value is above d: levels 0 .. reach - 1.
  const float scale = static_cast<float>(1 / width_);
  reach_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto reach = static_cast<std::int32_t>((values[i] - low) * scale) + 1;
    reach_[i] = static_cast<std::uint16_t>(std::min(reach, static_cast<std::int32_t>(levels_)));
  }
}

void LifeLibrary::make_lives() {
  const auto levels = static_cast<std::size_t>(levels_);
  const auto steps = static_cast<std::size_t>(steps_);
  first_.assign(levels * stride_, static_cast<std::uint16_t>(steps_));
  lives_.assign(levels * stride_ * words_, 0);
  std::array<std::uint16_t, kPaths> highest{};  // level that each path ever passes
  for (std::size_t r = 0; r < kPaths; ++r) {
    const std::uint16_t* reach = reach_.data() + r * steps;
    for (std::size_t s = 0; s < steps; ++s) {
      for (; highest[r] < reach[s]; ++highest[r]) {
        first_[highest[r] * stride_ + r] = static_cast<std::uint16_t>(s);
      }
      lives_[((reach[s] - 1U) * stride_ + r) * words_ + s / 64] |= std::uint64_t{1} << (s % 64);
    }
  }
  highest_reach_.assign(kPaths, 0);
  for (std::size_t r = 0; r < kPaths; ++r) {
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads_); ++h) {
      highest_reach_[r] = std::max(highest_reach_[r], highest[(r + h) % kPaths]);
    }
  }
  const std::size_t row = stride_ * words_;
  for (std::size_t j = levels - 1; j-- > 0;) {
    std::uint64_t* to = lives_.data() + j * row;
    for (std::size_t i = 0; i < kPaths * words_; ++i) to[i] |= to[i + row];
  }
  // The heads of a token that starts near the end of a row of paths go on at its start.
  for (std::size_t j = 0; j < levels; ++j) {
    std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(j * stride_), stride_ - kPaths,
                first_.begin() + static_cast<std::ptrdiff_t>(j * stride_ + kPaths));
    std::copy_n(lives_.begin() + static_cast<std::ptrdiff_t>(j * row), (stride_ - kPaths) * words_,
                lives_.begin() + static_cast<std::ptrdiff_t>(j * row + kPaths * words_));
  }
}

std::int64_t LifeLibrary::level_of_recency(double recency) const {
  return static_cast<std::int64_t>(settle((theta_ref_ + recency - low_) / width_) *
                                   (1 << kFraction));
}

}  // namespace kvlane::select
