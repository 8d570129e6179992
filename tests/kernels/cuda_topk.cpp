// Top-k on the GPU's code against a sort of its own, bit for bit.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/topk/cuda.h"
#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

enum class Scores { normal, few_values, equal, all_minus_infinity, special };

std::vector<float> draw(Random& random, std::size_t size, Scores kind) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {std::nanf(""), -std::nanf(""), kInfinity, -kInfinity, 0.0f,
                           -0.0f,         1e-42f,         -1e-42f,   3e38f,      -3e38f};
  std::vector<float> scores(size);
  for (float& s : scores) {
    switch (kind) {
      case Scores::normal:
        s = random.normal();
        break;
      case Scores::few_values:
        s = static_cast<float>(random.below(5) - 2);
        break;
      case Scores::equal:
        s = 0.25f;
        break;
      case Scores::all_minus_infinity:
        s = -kInfinity;
        break;
      case Scores::special:
        s = special[random.below(10)];
        break;
    }
  }
  return scores;
}

// Sorted with the order that kernel.h states.
std::vector<std::int32_t> expected_row(const float* scores, int n, int k, int width) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = scores[a], y = scores[b];
    return std::isnan(y) ? !std::isnan(x) : x > y;
  });
  order.resize(static_cast<std::size_t>(std::min(n, k)));
  std::sort(order.begin(), order.end());
  order.resize(static_cast<std::size_t>(width), -1);
  return order;
}

void check_topk(Random& random, int rows, int width, int k, Scores kind, bool with_n,
                int skew = 0) {
  CAPTURE(rows);
  CAPTURE(width);
  CAPTURE(k);
  CAPTURE(static_cast<int>(kind));
  const auto r = static_cast<std::size_t>(rows), w = static_cast<std::size_t>(width);
  const std::vector<float> scores = draw(random, static_cast<std::size_t>(skew) + r * w, kind);
  std::vector<std::int32_t> n(r, width);
  if (with_n) {
    for (std::int32_t& x : n) x = random.between(0, width);
  }
  const DeviceArray<float> device_scores(scores);
  const DeviceArray<std::int32_t> device_n(n), index(r * static_cast<std::size_t>(k)), count(r);
  TopK args;
  args.rows = rows;
  args.width = width;
  args.scores = device_scores.data() + skew;
  args.n = with_n ? device_n.data() : nullptr;
  args.k = k;
  args.index = index.data();
  args.count = count.data();
  const cuda::DeviceBuffer workspace(cuda::topk_workspace(args));
  cuda::topk(args, workspace.workspace(), nullptr);
  const std::vector<std::int32_t> ours = index.host(), counts = count.host();
  for (int row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    CAPTURE(row);
    CHECK(counts[at] == std::min(k, n[at]));
    const auto begin = ours.begin() + static_cast<std::ptrdiff_t>(row) * k;
    CHECK(std::vector<std::int32_t>(begin, begin + k) ==
          expected_row(scores.data() + skew + at * w, n[at], k, k));
  }
}

}  // namespace

TEST_CASE("top-k: odd shapes, ties, NaN, infinities, k of 0 and above n, in many orders") {
  INFO("seed ", run_seed());
  Random random(71);
  for_each_order(orders(12), [&] {
    const int width = random.between(1, 700);
    for (Scores kind : {Scores::normal, Scores::few_values, Scores::equal, Scores::special,
                        Scores::all_minus_infinity}) {
      check_topk(random, random.between(1, 3), width, random.between(0, width), kind, true,
                 random.below(4));
    }
    check_topk(random, 1, 1, 1, Scores::normal, false);
    check_topk(random, 2, 33, 33, Scores::normal, false);
    check_topk(random, 2, 33, 40, Scores::few_values, true);
    check_topk(random, 2, 20, 0, Scores::normal, false);
  });
}

TEST_CASE("top-k: rows that are longer than a tile") {
  INFO("seed ", run_seed());
  Random random(72);
  for_each_order(orders(6), [&] {
    check_topk(random, 2, 5003, random.between(1, 5003), Scores::normal, false, 1);
    check_topk(random, 1, 4097, 2000, Scores::few_values, true, 3);
  });
}

TEST_CASE("top-k: few long rows are split over the multiprocessors") {
  INFO("seed ", run_seed());
  Random random(73);
  for_each_order(orders(6), [&] {
    for (Scores kind : {Scores::normal, Scores::few_values, Scores::equal}) {
      check_topk(random, 2, 17001, random.between(1, 17001), kind, kind == Scores::few_values, 2);
    }
  });
}

TEST_CASE("top-k: one large shape") {
  INFO("seed ", run_seed());
  Random random(74);
  for_each_order(
      1, [&] { check_topk(random, 4, 16384, 2048, Scores::normal, false); }, 5);
}

TEST_CASE("top-k: bad arguments") {
  TopK args;
  args.rows = 1;
  args.width = 4;
  args.k = 2;
  CHECK_THROWS_AS(cuda::topk(args, {}, nullptr), std::invalid_argument);
  args.rows = 0;
  cuda::topk(args, {}, nullptr);
  args.k = -1;
  CHECK_THROWS_AS(cuda::topk(args, {}, nullptr), std::invalid_argument);
}
