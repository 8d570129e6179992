// Exact top-k: every instruction set gives the reference's positions, whatever the ties.

#include <doctest/doctest.h>

#include <limits>

#include "kernels/topk/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

// Ours on every instruction set, in a poisoned buffer of exactly the promised size.
void check(const std::vector<float>& scores, int rows, int width, int k,
           const std::vector<std::int32_t>& n) {
  TopK args;
  args.rows = rows;
  args.width = width;
  args.scores = scores.data();
  args.n = n.empty() ? nullptr : n.data();
  args.k = k;
  const auto size = static_cast<std::size_t>(rows * k);
  std::vector<std::int32_t> expected(size), expected_count(static_cast<std::size_t>(rows));
  args.index = expected.data();
  args.count = expected_count.data();
  ref::topk(args);
  for_each_instruction_set([&](const std::string& name) {
    CAPTURE(name);
    CAPTURE(width);
    CAPTURE(k);
    for (int threads : {1, 2}) {
      Cpu cpu(threads);
      Buffer index(size * 4), count(expected_count.size() * 4);
      args.index = index.as<std::int32_t>();
      args.count = count.as<std::int32_t>();
      cpu::topk(args, cpu);
      CHECK(std::equal(expected.begin(), expected.end(), args.index));
      CHECK(std::equal(expected_count.begin(), expected_count.end(), args.count));
    }
  });
}

}  // namespace

TEST_CASE("the reference is the definition: higher first, of equals the lower position") {
  const std::vector<float> scores = {1, 3, kNaN, 3, -0.0f, 3, 0, -kInfinity};
  const auto chosen = [&](int k) {
    std::vector<std::int32_t> index(static_cast<std::size_t>(k)), count(1);
    TopK args{1, 8, scores.data(), nullptr, k, index.data(), count.data()};
    ref::topk(args);
    return index;
  };
  CHECK(chosen(2) == std::vector<std::int32_t>{1, 3});
  CHECK(chosen(4) == std::vector<std::int32_t>{0, 1, 3, 5});
  CHECK(chosen(5) == std::vector<std::int32_t>{0, 1, 3, 4, 5});  // -0 stands before 0: a tie
  CHECK(chosen(7) == std::vector<std::int32_t>{0, 1, 3, 4, 5, 6, 7});
  CHECK(chosen(9) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, -1});
}

TEST_CASE("random rows, ties of every kind, all sizes") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (int width : {1, 2, 15, 16, 17, 100, 1000, 20011}) {
    for (int round = 0; round < 6; ++round) {
      const int rows = random.between(1, 3);
      std::vector<float> scores(static_cast<std::size_t>(rows * width));
      const int kind = random.below(5);
      for (float& score : scores) {
        const float x = random.normal();
        score = kind == 0   ? x
                : kind == 1 ? static_cast<float>(random.below(3))  // many ties
                : kind == 2 ? 1.5f                                 // all equal
                : kind == 3 ? (random.below(4) == 0   ? kNaN
                               : random.below(3) == 0 ? -kInfinity
                                                      : x)
                            : (random.below(2) == 0 ? -0.0f : 0.0f);
      }
      std::vector<std::int32_t> n;
      for (int row = 0; row < rows && round % 2 == 1; ++row) n.push_back(random.below(width + 1));
      check(scores, rows, width, round == 0 ? width : random.between(0, width + 3), n);
    }
  }
}

TEST_CASE("keys that differ in the last bits only") {
  Random random(2);
  std::vector<float> scores(5000);
  for (float& score : scores) {
    score = std::bit_cast<float>(0x3f800000u + static_cast<std::uint32_t>(random.below(700)));
  }
  check(scores, 1, 5000, 1234, {});
}

TEST_CASE("nothing to choose from, and bad arguments") {
  check({}, 0, 0, 5, {});
  check({}, 2, 0, 3, {});
  TopK args;
  args.rows = 1;
  args.k = -1;
  Cpu cpu(1);
  CHECK_THROWS_WITH_AS(cpu::topk(args, cpu), "a negative size", std::invalid_argument);
  const std::int32_t n = 3;
  std::int32_t out = 0;
  const float score = 0;
  args = {1, 1, &score, &n, 1, &out, &out};
  CHECK_THROWS_WITH_AS(cpu::topk(args, cpu), "more scores than a row is wide",
                       std::invalid_argument);
}
