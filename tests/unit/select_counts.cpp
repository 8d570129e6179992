// Counts, thresholds, tables and lives against closed forms.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "select_support.h"
#include "sim/select/gauss.h"
#include "sim/select/row_count.h"
#include "sim/select/step_counter.h"

using namespace kvlane;
using namespace kvlane::select;

namespace {

LayerSelection flat_layer() {  // no recency
  LayerSelection layer;
  layer.n = 0.05;
  layer.g = 0;
  layer.a0 = 10;
  layer.rho = 0.9;
  return layer;
}

std::vector<std::int64_t> counts_of(const LayerSelection& layer, SelectCount count, double cap,
                                    std::int64_t tokens, std::int64_t steps, int text = 0) {
  const std::string stream = "text " + std::to_string(text);
  return row_counts(layer, {count, cap}, tokens, steps, Rng(1, stream + "f"), Rng(1, stream + "b"));
}

}  // namespace

TEST_CASE("normal table: quantiles, tails, moments") {
  const NormalTable& table = NormalTable::instance();
  // Tables of the normal distribution.
  CHECK(table.of_uniform(0.5) == doctest::Approx(0));
  CHECK(table.of_uniform(0.975) == doctest::Approx(1.959964).epsilon(1e-4));
  CHECK(table.of_uniform(0.001) == doctest::Approx(-3.090232).epsilon(1e-3));
  CHECK(table.tail(0) == doctest::Approx(0.5));
  CHECK(table.tail(1.0) == doctest::Approx(0.158655).epsilon(1e-4));
  CHECK(table.tail(-2.3263) == doctest::Approx(0.99).epsilon(1e-4));
  CHECK(table.tail(9) == 0);
  CHECK(table.tail(-9) == 1);
  double sum = 0, square = 0;
  for (std::uint64_t i = 0; i < NormalTable::kBins; ++i) {
    sum += double{table.of_bin(i)};
    square += double{table.of_bin(i)} * double{table.of_bin(i)};
  }
  CHECK(sum / double(NormalTable::kBins) == doctest::Approx(0).epsilon(1e-6));
  CHECK(square / double(NormalTable::kBins) == doctest::Approx(1).epsilon(1e-3));
  CHECK(table.of_20_bits((2048U << 8U)) == 0);
  CHECK(table.of_20_bits(3072U << 8U) == doctest::Approx(0.6744898 * 65536).epsilon(1e-4));
}

TEST_CASE("settle: multiples of 2^-20, also below zero") {
  CHECK(settle(1.0) == 1.0);
  CHECK(settle(-1.25) == -1.25);
  CHECK(settle(0x1.0p-21) == 0x1.0p-20);
  CHECK(settle(-0x1.8p-21) == -0x1.0p-20);
  CHECK(settle(0x1.0p-22) == 0);
}

TEST_CASE("row counts: a cap is the share of the current length") {
  const auto counts = counts_of(flat_layer(), SelectCount::cap, 0.2, 1000, 64);
  REQUIRE(counts.size() == 96);
  for (std::int64_t s = -32; s < 64; ++s) {
    CHECK(counts[static_cast<std::size_t>(s + 32)] == (1000 + s + 1) / 5);
  }
}

TEST_CASE("row counts: log-normal with AR(1) from step to step, a scale of each text") {
  LayerSelection layer = flat_layer();
  layer.sigma_n = 0.4;
  layer.rho_n = 0.6;
  layer.sigma_between = 0.5;
  double mean = 0, product = 0, square = 0, between = 0;
  const int texts = 2000;
  for (int t = 0; t < texts; ++t) {
    const auto counts = counts_of(layer, SelectCount::threshold, 1.0, 10'000, 64, t);
    double text_mean = 0;
    std::array<double, 96> log_n{};
    for (std::size_t i = 0; i < 96; ++i) {
      mean += double(counts[i]) / 96 / texts;
      log_n[i] = std::log(double(counts[i]));
      text_mean += log_n[i] / 96;
    }
    between += (text_mean - std::log(500.0) + 0.08 + 0.125) *
               (text_mean - std::log(500.0) + 0.08 + 0.125) / texts;
    for (std::size_t i = 1; i < 96; ++i) {
      product += (log_n[i] - log_n[i - 1]) * (log_n[i] - log_n[i - 1]) / 95 / texts;
    }
    square += (log_n[31] - log_n[32]) * (log_n[31] - log_n[32]) / texts;
  }
  CHECK(mean == doctest::Approx(500).epsilon(0.04));  // E n(s) = n T; 2000 texts of 50 %: 1.1 %
  // E (ln n(s+1) - ln n(s))^2 = 2 sigma^2 (1 - rho), at the seam of past and future too.
  CHECK(product == doctest::Approx(2 * 0.16 * 0.4).epsilon(0.03));
  CHECK(square == doctest::Approx(2 * 0.16 * 0.4).epsilon(0.1));
  // Text means scatter by sigma_between and the AR(1) mean: 0.25 + 0.16 (1.6 / 0.4) / 96.
  CHECK(between == doctest::Approx(0.25 + 0.16 * 4 / 96).epsilon(0.1));
}

TEST_CASE("row counts: never above the cap, never below one row beside the sinks") {
  LayerSelection layer = flat_layer();
  layer.n = 0.2;
  layer.sigma_n = 1;
  for (const std::int64_t c : counts_of(layer, SelectCount::threshold, 0.2, 5000, 64)) {
    CHECK(c <= 5064 / 5);
    CHECK(c >= 5);
  }
  layer.n = 1e-6;
  for (const std::int64_t c : counts_of(layer, SelectCount::threshold, 0.2, 5000, 64)) {
    CHECK(c == 5);
  }
  // A prompt of one token: one row, whatever the cap says.
  for (const std::int64_t c : counts_of(layer, SelectCount::cap, 0.2, 1, 4)) CHECK(c == 1);
}

TEST_CASE("thresholds: without recency the normal quantile of the share") {
  // 15.8655 % of the rows beside the sinks: theta = 1; 0.135 %: theta = 3.
  const std::int64_t tokens = 100'000;
  for (const auto& [share, theta] : {std::pair{0.158655, 1.0}, {0.00134990, 3.0}}) {
    const std::vector<std::int64_t> counts(
        96, kSinks + static_cast<std::int64_t>(std::lround(share * double(tokens))));
    for (const double found : thresholds(flat_layer(), tokens, counts)) {
      CHECK(found == doctest::Approx(theta).epsilon(0.01));
    }
  }
}

TEST_CASE("thresholds: with recency the expected number of rows is the count") {
  LayerSelection layer = flat_layer();
  layer.g = 0.8;
  layer.a0 = 15;
  layer.sigma_n = 0.7;
  const std::int64_t tokens = 3000;
  const auto counts = counts_of(layer, SelectCount::threshold, 0.2, tokens, 200);
  const auto theta = thresholds(layer, tokens, counts);
  for (std::size_t i = 0; i < counts.size(); i += 37) {
    const std::int64_t position = tokens + static_cast<std::int64_t>(i) - kVirtualSteps;
    double expected = kSinks;  // every age one by one, erfc itself
    for (std::int64_t age = 0; age <= position - kSinks; ++age) {
      const double z = theta[i] + 0.8 * std::log1p(double(age) / 15);
      expected += 0.5 * std::erfc(z / std::numbers::sqrt2);
    }
    CHECK(expected == doctest::Approx(double(counts[i])).epsilon(0.02));
  }
}

TEST_CASE("step counter: packed, single and constant counts add up") {
  StepCounter counter(2);
  std::array<std::uint64_t, 2> life = {0x8000000000000001ULL, 0x2ULL};  // steps 0, 63, 65
  std::array<std::uint64_t, 16> packed{};
  packed[8] = 200;  // step 64
  for (int i = 0; i < 300; ++i) counter.add(life.data());
  for (int i = 0; i < 3; ++i) counter.add_packed(packed.data(), 200);
  counter.add_at(5, 7);
  std::vector<std::pair<std::size_t, std::uint32_t>> seen;
  const auto sink = [&](std::size_t s, std::uint32_t n) { seen.emplace_back(s, n); };
  counter.drain(sink);
  CHECK(seen == std::vector<std::pair<std::size_t, std::uint32_t>>{
                    {0, 300}, {5, 7}, {63, 300}, {64, 600}, {65, 300}});
  seen.clear();
  counter.add(life.data());
  counter.drain(sink);  // short path: nothing left of the first round
  CHECK(seen == std::vector<std::pair<std::size_t, std::uint32_t>>{{0, 1}, {63, 1}, {65, 1}});
  seen.clear();
  counter.add_always(3);
  counter.drain(sink);
  CHECK(seen.size() == 128);
}
