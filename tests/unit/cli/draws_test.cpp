// Draws on several threads.

#include "sim/cli/draws.h"

#include <doctest/doctest.h>

#include <atomic>

#include "sim/cli/parallel.h"
#include "tests/support/round_scenario.h"

using namespace kvlane;
using namespace kvlane::literals;

TEST_CASE("draws: the same whatever the number of threads") {
  Scenario s = test::round_scenario(3, 2, 8_Gbps, {0.001, 0.0001, 0.0005});
  s.strategies = {test::strategy(PolicyKind::full, "full"),
                  test::strategy(PolicyKind::smartgen, "smartgen")};
  for (InstanceGroup& group : s.instances) {
    group.gpu.fits[KernelClass::decode_attention] = {0.2, {}};
    group.nic.error = 0.1;
  }
  RunOptions options;
  options.verdict = false;
  const std::vector<DrawMeans> one = cli::run_draws(s, options, 12, 1, {});
  CHECK(one.size() == 12);
  CHECK(one[0] != one[1]);
  const bool same = cli::run_draws(s, options, 12, 4, {}) == one;
  CHECK(same);
  // The first of many are the few.
  const std::vector<DrawMeans> few = cli::run_draws(s, options, 5, 3, {});
  const bool first = few == std::vector<DrawMeans>(one.begin(), one.begin() + 5);
  CHECK(first);
}

TEST_CASE("draws: an object of the pool serves one thread at a time") {
  std::atomic<int> made = 0;
  std::atomic<bool> shared = false;
  cli::Pool<std::atomic<int>> pool([&] {
    ++made;
    return std::make_unique<std::atomic<int>>(0);
  });
  cli::parallel_for(1000, 4, [&](std::size_t) {
    pool.with([&](std::atomic<int>& users) {
      if (++users > 1) shared = true;
      return --users;
    });
  });
  CHECK(!shared);
  CHECK(made >= 1);
  CHECK(made <= 4);
}
