// Closed forms of transfers through the whole simulator. 8 Gbit/s = 1 MB a millisecond; a layer of
// a prompt is 1 MB (and 1 kB of mask update). Announcing a request costs 64 B = 64 ns of the port,
// with priority over KV.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/round_scenario.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

constexpr Duration kControl = 64_ns;
// A layer on the wire: 1 MB and the update of its mask, one byte a token.
constexpr double kLayer = 1.001e-3;
constexpr double kExact = 1e-9;  // seconds: kernels that cost nothing take a picosecond each

double ttst(const StrategyRun& run, std::size_t request = 0) {
  return to_seconds(run.times[request].ttst());
}
double ttft(const StrategyRun& run, std::size_t request = 0) {
  return to_seconds(run.times[request].ttft());
}
double second_token(const StrategyRun& run, std::size_t request = 0) {
  return to_seconds(run.times[request].second_token());
}
void check_near(double value, double expected, double tolerance = kExact) {
  CHECK_MESSAGE(std::abs(value - expected) <= tolerance, value, " is not ", expected);
}

StrategyOptions pull(PolicyKind policy = PolicyKind::full_dense) {
  StrategyOptions options = strategy(policy);
  options.overlap = Overlap::none;
  return options;
}

std::int64_t kv_bytes(const StrategyRun& run) {
  return (run.lane_bytes[index(Lane::proactive)] + run.lane_bytes[index(Lane::on_demand)] +
          run.lane_bytes[index(Lane::speculative)])
      .count();
}

}  // namespace

TEST_CASE("full: layers overlap prefill; the slower of compute and wire sets the pace") {
  // 4 layers, c to compute and w = 1 ms to send one. Wire bound (c < w): the first layer leaves at
  // c, the last byte arrives at c + 4 w. Compute bound (c > w): 4 c + w. Token 1 at 4 c.
  const double step = 2e-3;
  for (const double c : {0.25e-3, 1.5e-3}) {
    Bench bench(round_scenario(4, 1, 8_Gbps, {c, 0, step}));
    const StrategyRun run = bench.run(strategy(PolicyKind::full_dense));
    const double last = c < 1e-3 ? c + 4 * kLayer + to_seconds(kControl) : 4 * c + kLayer;
    check_near(ttft(run), 4 * c);
    // In the compute-bound case the announcement takes its 64 ns from the last layer.
    check_near(ttst(run), last - 4 * c + step + (c < 1e-3 ? 0 : to_seconds(kControl)));
    CHECK(kv_bytes(run) == 4 * 1'000'000);
  }
}

TEST_CASE("full, overlap none: the second token comes after T_p + V/B and a step") {
  const double step = 3e-3;
  Bench bench(round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, step}));
  const StrategyRun run = bench.run(pull());
  check_near(second_token(run), 4 * 0.5e-3 + 4 * kLayer + to_seconds(kControl) + step);
  // Layer-wise sending is the same bytes, and hides all but the first layer's compute.
  const StrategyRun layered = bench.run(strategy(PolicyKind::full_dense));
  CHECK(kv_bytes(layered) == kv_bytes(run));
  check_near(ttst(run) - ttst(layered), 3 * 0.5e-3);
}

TEST_CASE("bandwidth moves the second token by V/B") {
  const auto at = [](Bandwidth rate) {
    Bench bench(round_scenario(4, 1, rate, {0.5e-3, 0, 1e-3}));
    return ttst(bench.run(pull()));
  };
  // V = 4.004 MB: 4.004 ms at 8 Gbit/s, 8 ms at 4, 2 ms at 16; the announcement shrinks alike.
  check_near(at(4_Gbps) - at(8_Gbps), 4 * kLayer + 64e-9);
  check_near(at(8_Gbps) - at(16_Gbps), 2 * kLayer + 32e-9);
}

TEST_CASE("two transfers that share a port take twice as long as one alone") {
  const auto run = [](std::int64_t requests) {
    Bench bench(round_scenario(4, requests, 8_Gbps, {0.5e-3, 0, 1e-3}));
    return bench.run(pull());
  };
  const StrategyRun one = run(1);
  const StrategyRun two = run(2);
  check_near(ttst(one), 4 * kLayer + 64e-9 + 1e-3);
  for (const std::size_t r : {0U, 1U}) check_near(ttst(two, r), 8 * kLayer + 2 * 64e-9 + 1e-3);
  // What sharing added is called queue, what the bytes need alone wire.
  const TtstCauses causes = ttst_causes(two.times[1], true, 1_ms);
  check_near(to_seconds(causes.wire), 4e-3);
  check_near(to_seconds(causes.wire + causes.queue), 8 * kLayer + 2 * 64e-9);
}

TEST_CASE("incast: six prompts into one port take six times V/B") {
  Bench bench(round_scenario(4, 6, 8_Gbps, {0.5e-3, 0, 1e-3}));
  const StrategyRun run = bench.run(pull());
  for (std::size_t r = 0; r < 6; ++r) check_near(ttst(run, r), 6 * 4 * kLayer + 6 * 64e-9 + 1e-3);
  CHECK(kv_bytes(run) == 6 * 4'000'000);
}

TEST_CASE("prefill port and decode port: the narrower one decides") {
  // Two prompts leave through one prefill port (2 GPUs an instance) of 8 Gbit/s: 8 ms, though the
  // decode port has 32.
  Scenario s = round_scenario(4, 2, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.instances[0].count = 1;
  s.instances[0].gpus = 2;
  s.instances[1].nic.rate = 32_Gbps;
  const StrategyRun run = Bench(s).run(pull());
  for (const std::size_t r : {0U, 1U}) check_near(ttst(run, r), 8 * kLayer + 2 * 64e-9 + 1e-3);
}

TEST_CASE("HACK: bytes on the wire of every layer") {
  // Bytes an element of the packed part 2/8 + (4 + s)/Pi; 4 sinks and the open partition, (n - 4)
  // mod Pi tokens, in 16 bit. Elements a token and layer: 500.
  struct Case {
    std::int64_t partition, open;
    double packed;
  };
  for (const Case& c :
       {Case{32, 4 + 996 % 32, 0.25 + 5.0 / 32}, Case{64, 4 + 996 % 64, 0.25 + 5.0 / 64},
        Case{128, 4 + 996 % 128, 0.25 + 6.0 / 128}}) {
    CAPTURE(c.partition);
    Bench bench(round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3}));
    StrategyOptions options = strategy(PolicyKind::hack);
    options.hack_partition = c.partition;
    const StrategyRun run = bench.run(options);
    const double layer =
        static_cast<double>(c.open) * 1000 + static_cast<double>(1000 - c.open) * 500 * c.packed;
    CHECK(std::abs(static_cast<double>(kv_bytes(run)) - 4 * layer) <= 4);  // rounded up by layer
    CHECK(run.metadata == 0_B);  // attends to all, selects nothing
  }
}

TEST_CASE("quantised payloads: bytes on the wire") {
  for (const auto& [payload, share] :
       {std::pair{Payload::fp8, 0.5}, std::pair{Payload::int4, 0.28125}}) {
    Bench bench(round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3}));
    StrategyOptions options = strategy(PolicyKind::full_dense);
    options.payload = payload;
    // int4: (0.5 + 4/64) / 2 of 16 bit.
    CHECK(kv_bytes(bench.run(options)) == static_cast<std::int64_t>(4e6 * share));
  }
}

TEST_CASE("full: total = layout + metadata + control") {
  Bench bench(round_scenario(4, 3, 8_Gbps, {0.5e-3, 0, 1e-3}));
  const StrategyRun run = bench.run(strategy(PolicyKind::full));
  // 2 of 4 layers select: 10 % of their 2 MB a request. An announcement, a release and
  // 4 kB of mask updates each.
  CHECK(run.lane_bytes[index(Lane::proactive)].count() == 3 * 4'000'000);
  CHECK(run.metadata.count() == 3 * 200'000);
  CHECK(run.lane_bytes[index(Lane::control)].count() == 3 * (2 * 64 + 4 * 1000));
  CHECK(run.lane_bytes[index(Lane::on_demand)].count() == 0);
  CHECK(run.lane_bytes[index(Lane::speculative)].count() == 0);
}

TEST_CASE("smartgen: proactive bytes are what prefill hides") {
  // 8 layers, 8 MB: T_t = 8 ms at 8 Gbit/s, T_p = 8 x 0.75 = 6 ms.
  // K_r = 8 MB x 6/8 x 7/8 = 5.25 MB; layers 0 and 1 take 2 MB of it, metadata of the other six
  // 0.6 MB; 2.65 MB = 265 blocks of 10 kB are left to choose.
  Bench bench(round_scenario(8, 1, 8_Gbps, {0.75e-3, 0, 1e-3}));
  StrategyOptions options = strategy(PolicyKind::smartgen);
  options.speculative = false;
  const StrategyRun run = bench.run(options);
  CHECK(run.metadata.count() == 600'000);
  CHECK(run.lane_bytes[index(Lane::proactive)].count() == 2'000'000 + 265 * 10'000);
  // Metadata outside the budget: 60 blocks more.
  options.budget_counts = BudgetCounts::metadata_outside;
  CHECK(bench.run(options).lane_bytes[index(Lane::proactive)].count() == 2'000'000 + 325 * 10'000);
  // Half of all blocks: 400, less 200 of the dense layers and 60 blocks' worth of metadata.
  options.budget_counts = BudgetCounts::metadata_inside;
  options.budget = 0.5;
  CHECK(bench.run(options).lane_bytes[index(Lane::proactive)].count() == 2'000'000 + 140 * 10'000);
}

TEST_CASE("smartgen: the budget counts on a share of the port") {
  // Two prompts to one port: each plans with 4 Gbit/s, T_t = 16 ms: K_r = 8 x 6/16 x 7/8 = 2.625
  // MB, 25 kB beyond the mandatory 2.6 MB: two blocks.
  Bench bench(round_scenario(8, 2, 8_Gbps, {0.75e-3, 0, 1e-3}));
  StrategyOptions options = strategy(PolicyKind::smartgen);
  options.speculative = false;
  CHECK(bench.run(options).lane_bytes[index(Lane::proactive)].count() ==
        2 * (2'000'000 + 2 * 10'000));
}

TEST_CASE("mandatory bytes beyond the budget are sent and show up in the time to second token") {
  // 0.1 ms a layer: K_r = 8 MB x 0.8/8 x 7/8 = 0.7 MB < 2.6 MB mandatory. The dense layers leave at
  // 0.1 and 0.2 ms, the metadata behind them; 2.6 MB in one queue from 0.1 ms on: 2.7 ms, against
  // token 1 at 0.8 ms.
  Bench bench(round_scenario(8, 1, 8_Gbps, {0.1e-3, 0, 0}));
  StrategyOptions options = strategy(PolicyKind::smartgen);
  options.speculative = false;
  const StrategyRun run = bench.run(options);
  CHECK(run.lane_bytes[index(Lane::proactive)].count() == 2'000'000);
  check_near(to_seconds(run.times[0].data_ready - run.times[0].tokens[0]),
             0.1e-3 + 2.602e-3 + 64e-9 - 0.8e-3);
}

TEST_CASE("early prefix: what is cached leaves before its layer is computed") {
  // Half of the prompt is cached: its 2 MB go at time 0 and take 2 ms; computing takes 4 x 1 ms.
  // Each layer's other half (0.5 ms) then follows its compute: last byte at 4.5 ms. Without early
  // prefix the first layer leaves at 1 ms and the wire never rests: 5.004 ms.
  Scenario s = round_scenario(4, 1, 8_Gbps, {1e-3, 0, 1e-3});
  s.prompts[0].prefix_hit = 0.5;
  Bench bench(s);
  StrategyOptions options = strategy(PolicyKind::full_dense);
  const double late = ttst(bench.run(options));
  options.early_prefix = true;
  const StrategyRun early = bench.run(options);
  check_near(late, 1e-3 + 4 * kLayer - 4e-3 + 1e-3 + 64e-9);
  check_near(ttst(early), kLayer / 2 + 1e-3 + 64e-9);
  CHECK(kv_bytes(early) == 4'000'000);
}

TEST_CASE("first_token: the transfer is on the second token, or on the first") {
  // V/B = 4 ms after T_p = 2 ms; a step is 3 ms.
  const auto run = [](FirstToken who) {
    Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 3e-3});
    s.serving.first_token = who;
    return Bench(s).run(pull());
  };
  const double wire = 4 * kLayer + 64e-9;
  const StrategyRun prefill = run(FirstToken::prefill);
  check_near(ttft(prefill), 2e-3);
  check_near(ttst(prefill), wire + 3e-3);
  const StrategyRun seeded = run(FirstToken::decode_seeded);  // token 1 travels with the KV
  check_near(ttft(seeded), 2e-3 + wire);
  check_near(ttst(seeded), 3e-3);
  const StrategyRun recompute = run(FirstToken::decode_recompute);  // token 1 is a decode step
  check_near(ttft(recompute), 2e-3 + wire + 3e-3);
  check_near(ttst(recompute), 3e-3);
  // second_token compares: seeding changes who tells the user, recomputing costs a step.
  check_near(second_token(seeded), second_token(prefill));
  check_near(second_token(recompute), second_token(prefill) + 3e-3);
  CHECK(seeded.times[0].tokens.size() == 3);
  CHECK(recompute.times[0].tokens.size() == 3);
}

TEST_CASE("a link that fails and is repaired: the gap is added to the transfer") {
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.switches = {"hub"};
  s.cables = {{"prefill", "hub", Bandwidth::unlimited(), 0_s}, {"decode", "hub", 8_Gbps, 0_s}};
  const double whole = ttst(Bench(s).run(pull()));
  s.link_events = {{3_ms, "decode", "hub", Bandwidth()}, {8_ms, "decode", "hub", 8_Gbps}};
  check_near(ttst(Bench(s).run(pull())), whole + 5e-3);
  // Half of the rate for 2 of the 4 ms of transfer: 1 ms more.
  s.link_events = {{3_ms, "decode", "hub", 4_Gbps}, {5_ms, "decode", "hub", 8_Gbps}};
  check_near(ttst(Bench(s).run(pull())), whole + 1e-3);
}

TEST_CASE("a link that never comes back is an error of the run") {
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.switches = {"hub"};
  s.cables = {{"prefill", "hub", Bandwidth::unlimited(), 0_s}, {"decode", "hub", 8_Gbps, 0_s}};
  s.link_events = {{3_ms, "decode", "hub", Bandwidth()}};
  Bench bench(s);
  CHECK_THROWS_AS(bench.run(pull()), RunError);
  CHECK_THROWS_AS(bench.run(strategy(PolicyKind::smartgen)), RunError);
}

}  // namespace kvlane
