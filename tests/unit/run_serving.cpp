// Joining, placing and memory paths, by closed forms through the whole simulator.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/input_error.h"
#include "sim/run/run.h"
#include "tests/support/round_scenario.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

constexpr double kExact = 1e-9;
constexpr double kLayer = 1.001e-3;  // 1 MB and a byte of mask a token, at 8 Gbit/s

void check_near(double value, double expected, double tolerance = kExact) {
  CHECK_MESSAGE(std::abs(value - expected) <= tolerance, value, " is not ", expected);
}
StrategyOptions pull() {
  StrategyOptions options = strategy(PolicyKind::full_dense);
  options.overlap = Overlap::none;
  return options;
}

}  // namespace

TEST_CASE("a hand-over in the middle of a step waits for its end") {
  // One prefill GPU, T_p = 4 ms a request, a wire of next to no time, steps of 10 ms: request 0
  // joins at 4 ms, steps end at 14, 24, ...; request 1 is there at 8 ms, joins at 14, gets its
  // second token at 24: 6 ms of waiting and one step.
  Scenario s = round_scenario(4, 2, Bandwidth::gbit_per_sec(8e6), {1e-3, 0, 10e-3});
  s.instances[0].count = 1;
  s.output_tokens = 6;
  const StrategyRun run = Bench(s).run(pull());
  check_near(to_seconds(run.times[0].tokens[1]), 14e-3, 1e-8);
  check_near(to_seconds(run.times[1].tokens[0]), 8e-3, 1e-8);
  check_near(to_seconds(run.times[1].tokens[1]), 24e-3, 1e-8);
  const TtstCauses causes = ttst_causes(run.times[1], true, 10_ms);
  check_near(to_seconds(causes.orchestration), 6e-3, 1e-8);
  check_near(to_seconds(causes.step), 10e-3, 1e-8);
  check_near(to_seconds(causes.wire + causes.queue + causes.fetch), 0, 1e-8);
}

TEST_CASE("an idle engine notices a request at its next look, then allocates its blocks") {
  // T_p = 4 ms; looks every 3 ms: noticed at 6. The router's hop of 0.5 ms is before that; blocks
  // take 0.25 ms a request.
  Scenario s = round_scenario(4, 1, Bandwidth::gbit_per_sec(8e6), {1e-3, 0, 10e-3});
  s.serving.idle_poll = 3_ms;
  s.serving.router_hop = 500_us;
  s.serving.allocate = 250_us;
  const StrategyRun run = Bench(s).run(pull());
  check_near(to_seconds(run.times[0].tokens[1]), 6e-3 + 0.25e-3 + 10e-3, 1e-8);
  s.serving.router_hop = 2500_us;  // 6.5 ms: the look at 6 is missed
  CHECK(to_seconds(Bench(s).run(pull()).times[0].joined) == doctest::Approx(9.25e-3));
}

TEST_CASE("requests of one worker wait for each other, in order") {
  Scenario s = round_scenario(4, 3, 8_Gbps, {1e-3, 0, 1e-3});
  s.instances[0].count = 1;
  const StrategyRun run = Bench(s).run(pull());
  for (std::size_t r = 0; r < 3; ++r) {
    check_near(to_seconds(run.times[r].ttft()), 4e-3 * static_cast<double>(r + 1));
    check_near(to_seconds(ttft_causes(run.times[r], true).queue), 4e-3 * static_cast<double>(r));
    check_near(to_seconds(ttft_causes(run.times[r], true).prefill), 4e-3);
  }
}

TEST_CASE("colocated: nothing moves") {
  Scenario s = round_scenario(4, 2, 8_Gbps, {1e-3, 0, 10e-3});
  const StrategyRun run = Bench(s).run(strategy(PolicyKind::colocated));
  for (const Bytes bytes : run.lane_bytes) CHECK(bytes == 0_B);
  CHECK(run.metadata == 0_B);
  CHECK(run.transfer == 0_s);
  for (const RequestTimes& t : run.times) {
    check_near(to_seconds(t.ttft()), 4e-3);
    check_near(to_seconds(t.ttst()), 10e-3);
  }
}

TEST_CASE("without GPUDirect, what belongs in GPU memory crosses PCIe after it has arrived") {
  // All layers dense: 1 ms each on the wire, then 0.5 ms over PCIe at 16 Gbit/s: the last layer's
  // copy is what is added. With GPUDirect PCIe is part of the path and wide enough.
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.serving.dense_layers = 4;
  s.instances[1].gpu.pcie_h2d = 16_Gbps;
  StrategyOptions options = pull();
  Bench bench(s);
  const double direct = to_seconds(bench.run(options).times[0].ttst());
  check_near(direct, 4 * kLayer + 64e-9 + 1e-3);
  options.gdr = false;
  Records records;
  check_near(to_seconds(bench.run(options, {}, &records).times[0].ttst()), direct + 0.5e-3);
  const auto copies = records.of(TraceKind::copy);
  CHECK(std::count_if(copies.begin(), copies.end(), [](const TraceRecord& r) {
          return r.gpu == GpuId(1) && r.bytes == Bytes(1'000'000);
        }) == 4);
  // A narrow PCIe link is the path's bottleneck with GPUDirect: 4 MB at 4 Gbit/s.
  s.instances[1].gpu.pcie_h2d = 4_Gbps;
  options.gdr = true;
  check_near(to_seconds(Bench(s).run(options).times[0].ttst()), 8 * kLayer + 64e-9 + 1e-3);
}

TEST_CASE("offload to host memory precedes the wire") {
  // D2H at 2 MB/ms: each layer 0.5 ms after its compute. Layer-wise: first layer leaves at 0.5 +
  // 0.5 ms, the wire then never stops: 1 + 4 ms, less T_p = 2 ms.
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.instances[0].gpu.pcie_d2h = 16_Gbps;
  check_near(to_seconds(Bench(s).run(strategy(PolicyKind::full_dense)).times[0].ttst()),
             1e-3 + 4 * kLayer - 2e-3 + 64e-9 + 1e-3);
  // In GPU memory there is nothing to offload.
  StrategyOptions in_gpu = strategy(PolicyKind::full_dense);
  in_gpu.kv_placement = KvPlacement::gpu;
  check_near(to_seconds(Bench(s).run(in_gpu).times[0].ttst()),
             0.5e-3 + 4 * kLayer - 2e-3 + 64e-9 + 1e-3);
}

TEST_CASE("tensor parallelism: heads, KV and PCIe divide, collectives are paid, bytes stay") {
  // Two GPUs offload half of a layer each: 0.25 ms instead of 0.5; two all-reduces of 0.1 ms a
  // layer in prefill (0.5 + 0.2 ms) and decode (4 x 0.2 ms a step).
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  for (InstanceGroup& g : s.instances) {
    g.gpus = g.tp = 2;
    g.gpu.all_reduce = {{2, {1e-4, 1e40}}};
    g.gpu.pcie_d2h = 16_Gbps;
  }
  Bench bench(s);
  Records records;
  const StrategyRun run = bench.run(pull(), {}, &records);
  // The LM head pays one all-reduce too, in prefill and in a step.
  check_near(to_seconds(run.times[0].ttft()), 4 * 0.7e-3 + 1e-4);
  // Pull starts when the last layer is offloaded: 0.25 ms after its compute, 0.15 ms after token 1.
  check_near(to_seconds(run.times[0].ttst()), 0.15e-3 + 4 * kLayer + 1e-3 + 4 * 0.2e-3 + 1e-4,
             1e-7);
  CHECK(run.lane_bytes[index(Lane::proactive)].count() == 4'000'000);
  // Same degree at both sides: a layer is one piece. Degrees that differ: as many as the finer has.
  const auto pieces = [](const Records& r) {
    std::int64_t most = 0;
    for (const TraceRecord& t : r.of(TraceKind::transfer)) {
      if (t.lane == Lane::proactive) most = std::max(most, t.value);
    }
    return most;
  };
  CHECK(pieces(records) == 1 + 1);  // and the mask update
  s.instances[1].gpus = s.instances[1].tp = 1;
  Records cut;
  Bench(s).run(pull(), {}, &cut);
  CHECK(pieces(cut) == 2 + 1);
}

TEST_CASE("a recurrent state moves whole, without rows and mask") {
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  LayerSpec& linear = s.model.layers[3];
  linear.attention = AttentionKind::linear;
  linear.kv_heads = linear.k_width = linear.v_width = 0;
  linear.state = Bytes(300'000);
  for (const PolicyKind policy : {PolicyKind::full, PolicyKind::smartgen}) {
    StrategyOptions options = strategy(policy);
    options.budget = 1;
    options.speculative = false;
    const StrategyRun run = Bench(s).run(options);
    CHECK(run.lane_bytes[index(Lane::proactive)].count() == 3'300'000);
    CHECK(run.times[0].tokens.size() == 3);
  }
}

TEST_CASE("several decode workers behind one port: each serves its own batch") {
  Scenario s = round_scenario(4, 4, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.instances[1].gpus = 2;
  Records records;
  const StrategyRun run = Bench(s).run(strategy(PolicyKind::full), {}, &records);
  CHECK(run.lane_bytes[index(Lane::proactive)].count() == 4 * 4'000'000);
  std::set<std::uint32_t> gpus;
  for (const TraceRecord& r : records.of(TraceKind::iteration)) {
    gpus.insert(r.gpu.value());
    CHECK(r.value <= 2);
  }
  CHECK(gpus == std::set<std::uint32_t>{4, 5});
  for (const RequestTimes& t : run.times) CHECK(t.tokens.size() == 3);
}

TEST_CASE("a run's parts add up to its times") {
  Scenario s = round_scenario(6, 3, 8_Gbps, {0.3e-3, 0.2e-3, 1e-3});
  s.instances[0].count = 2;
  s.output_tokens = 6;
  s.serving.idle_poll = 700_us;
  s.serving.router_hop = 90_us;
  s.serving.allocate = 40_us;
  for (const PolicyKind policy :
       {PolicyKind::ideal, PolicyKind::full, PolicyKind::full_dense, PolicyKind::sequential,
        PolicyKind::hack, PolicyKind::smartgen, PolicyKind::colocated}) {
    s.strategies.push_back(strategy(policy, to_string(policy)));
  }
  for (const FirstToken who :
       {FirstToken::prefill, FirstToken::decode_seeded, FirstToken::decode_recompute}) {
    s.serving.first_token = who;
    const Result result = run_scenario(s);
    REQUIRE(result.strategies.size() == 7);
    for (const StrategyResult& r : result.strategies) {
      CAPTURE(r.name);
      const TtstParts& a = r.ttst_parts_s;
      const TtftParts& b = r.ttft_parts_s;
      check_near(a.prefill_tail + a.wire + a.queue + a.orchestration + a.fetch + a.step,
                 r.ttst_s.mean, 1e-12);
      check_near(b.queue + b.prefill + b.wire + b.orchestration + b.step, r.ttft_s.mean, 1e-12);
      check_near(r.ttft_s.mean + r.ttst_s.mean, r.second_token_s.mean, 1e-12);
      for (double part : {a.prefill_tail, a.wire, a.queue, a.orchestration, a.fetch, a.step,
                          b.queue, b.prefill, b.wire, b.orchestration, b.step}) {
        CHECK(part >= 0);
      }
      CHECK(r.ctl_s.size() == 6);
      check_near(r.ctl_s[0], r.ttft_s.mean, 1e-12);
      check_near(r.ctl_s[1], r.second_token_s.mean, 1e-12);
      check_near(r.ctl_s[5], r.jct_s.mean, 1e-12);
      CHECK(r.bytes_total == r.bytes_control + r.bytes_on_demand + r.bytes_proactive +
                                 r.bytes_speculative + r.bytes_metadata);
    }
    // The ratio is of full to the strategy; full's own is 1.
    const StrategyResult& full = result.strategies[1];
    const StrategyResult& smart = result.strategies[5];
    CHECK(full.speedup_vs_full->ttst == 1);
    CHECK(smart.speedup_vs_full->ttst == doctest::Approx(full.ttst_s.mean / smart.ttst_s.mean));
    CHECK(result.strategies[0].stall_s.mean == 0);  // `ideal` is its own ideal
  }
}

TEST_CASE("seeds pool, with a spread of their means") {
  Scenario s = round_scenario(6, 1, 8_Gbps, {0.3e-3, 0.02e-3, 1e-3});
  s.strategies = {strategy(PolicyKind::smartgen, "smartgen")};
  RunOptions options;
  options.verdict = false;
  std::vector<double> means;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    s.seed = seed;
    means.push_back(run_scenario(s, options).strategies[0].ttst_s.mean);
  }
  s.seed = 1;
  s.seeds = 3;
  const Distribution d = run_scenario(s, options).strategies[0].ttst_s;
  const double mean = (means[0] + means[1] + means[2]) / 3;
  double squares = 0;
  for (const double m : means) squares += (m - mean) * (m - mean);
  CHECK(d.mean == doctest::Approx(mean).epsilon(1e-12));
  REQUIRE(d.spread.has_value());
  CHECK(*d.spread > 0);
  CHECK(*d.spread == doctest::Approx(std::sqrt(squares / 2)).epsilon(1e-9));
  std::sort(means.begin(), means.end());
  CHECK(d.p50 == doctest::Approx(means[1]));  // nearest rank of three: the second
  CHECK(d.p90 == doctest::Approx(means[2]));
  CHECK(d.max == doctest::Approx(means[2]));
}

TEST_CASE("--only restricts, and refuses names that no strategy has") {
  Scenario s = round_scenario(4, 1, 8_Gbps, {0.5e-3, 0, 1e-3});
  s.strategies = {strategy(PolicyKind::full, "full"), strategy(PolicyKind::hack, "hack")};
  RunOptions options;
  options.only = {"hack"};
  const Result result = run_scenario(s, options);
  REQUIRE(result.strategies.size() == 1);
  CHECK(result.strategies[0].name == "hack");
  CHECK(!result.strategies[0].speedup_vs_full.has_value());
  options.only = {"hac"};
  CHECK_THROWS_AS(run_scenario(s, options), InputError);
}

}  // namespace kvlane
