#pragma once
// Whole runs with faults by a seed, on real wires: every run either ends with all its tokens and
// every byte verified, or with an error in words within its deadline; nothing is left behind.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/live/faulty.h"
#include "tests/live/role_mesh.h"
#include "tests/support/round_scenario.h"

namespace kvlane::live::test {

inline Scenario fault_scenario() {
  using namespace literals;
  using kvlane::test::round_scenario;
  using kvlane::test::strategy;
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.2e-3, 0.1e-3, 0.05e-3});
  s.prompts = {{2, 100, 0.5}};
  s.serving.blocks = 20;
  s.output_tokens = 4;
  s.strategies = {strategy(PolicyKind::full, "full"), strategy(PolicyKind::smartgen, "smartgen")};
  StrategyOptions reads = strategy(PolicyKind::smartgen, "reads");
  reads.on_demand_via = OnDemandVia::read;
  reads.keep_fetched = false;
  s.strategies.push_back(reads);
  return s;
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

inline FaultPlan plan_of(std::mt19937_64& random) {
  FaultPlan plan;
  plan.seed = random();
  std::uniform_real_distribution<double> uniform(0, 1);
  plan.delay = uniform(random) * 0.5;
  plan.twice = uniform(random) * 0.3;
  if (random() % 4 == 0) plan.drop = 0.02;
  if (random() % 4 == 0) plan.kill_after = static_cast<std::int64_t>(random() % 60);
  return plan;
}

struct Outcome {
  int good = 0, failed = 0;
};

// `timeout`: nothing moves for so long.
inline Outcome fault_runs(const MakeWire& wire, std::uint64_t first, std::uint64_t count,
                          Duration timeout) {
  const Scenario s = fault_scenario();
  LiveOptions options;
  options.verify = true;
  options.timeout = timeout;
  Outcome outcome;
  const std::size_t before = open_descriptors();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    options.checksum = random() % 2 == 0;
    const FaultPlan plan = plan_of(random);
    const auto began = std::chrono::steady_clock::now();
    {
      WallLoop loop;
      const WrapPending wrap = [&](ConnectionOwner& owner, const auto& make) {
        auto faulty = std::make_unique<FaultyPending>(loop, owner, plan);
        faulty->set(make(faulty->inner_owner()));
        return faulty;
      };
      RoleMesh mesh(loop, s, options, wire, wrap);
      try {
        const auto records = mesh.run(static_cast<std::uint32_t>(random() % s.strategies.size()));
        CHECK(mesh.decode().verified_bytes > 0);
        std::size_t tokens = 0;
        for (const TraceRecord& r : records) tokens += r.kind == TraceKind::token ? 1 : 0;
        CHECK(tokens == 8);
        ++outcome.good;
      } catch (const PeerError& error) {
        CHECK(std::string(error.what()).size() > 10);
        ++outcome.failed;
      }
    }
    const auto took = std::chrono::steady_clock::now() - began;
    // The deadline: nothing moves for the time-out, or what still runs after three times that.
    CHECK(Duration(std::chrono::duration_cast<std::chrono::nanoseconds>(took)) <
          4 * timeout + std::chrono::seconds(4));
    CHECK(open_descriptors() == before);
  }
  return outcome;
}

inline std::uint64_t fault_runs_wanted(std::uint64_t usual) {
  const char* runs_text = std::getenv("KVLANE_FAULT_RUNS");
  return runs_text == nullptr ? usual : std::strtoull(runs_text, nullptr, 10);
}

}  // namespace kvlane::live::test
