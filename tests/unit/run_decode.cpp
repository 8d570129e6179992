// Closed forms of decoding with remote rows. What a step selects comes from the request's demand,
// what was pushed from the order and the budget; the rest is arithmetic. 8 Gbit/s = 1 B/ns.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/round_scenario.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

constexpr std::size_t kLayers = 8;
constexpr double kExact = 2e-9;  // seconds; flows round up to a picosecond, there are some dozen

void check_near(double value, double expected, double tolerance = kExact) {
  CHECK_MESSAGE(std::abs(value - expected) <= tolerance, value, " is not ", expected);
}

// Layers 2 to 7 select, each waiting for its rows (HATA); layers 0 and 1 are dense. Prefill is slow
// enough to hide what is pushed, a step's host work to let the last blocks arrive.
Scenario scenario() { return round_scenario(kLayers, 1, 8_Gbps, {2e-3, 1e-4, 5e-3}); }

StrategyOptions smartgen() {
  StrategyOptions options = strategy(PolicyKind::smartgen);
  options.selection = Selector::hata;
  options.speculative = false;
  options.budget = 0.5;
  return options;
}

// The blocks that `smartgen()` pushes: the head of its order. Half of 8 MB, less 2 MB of dense
// layers and 6 x 36 kB of codes (18 B a row, 2000 rows a layer): 178 blocks of 10 kB.
std::set<std::pair<std::size_t, std::uint32_t>> pushed(Bench& bench) {
  std::set<std::pair<std::size_t, std::uint32_t>> blocks;
  const BlockOrder& order = bench.workload.order(PushOrder::profile, Selector::hata, 0);
  for (std::size_t i = 0; i < 178; ++i)
    blocks.insert({order.blocks[i].layer, order.blocks[i].block});
  return blocks;
}

struct Rows {
  std::int64_t remote = 0, local = 0;
};

// What layer l reads at a step, and from where. `kept`: rows fetched before are here.
Rows rows_of(const Demand& demand, const std::set<std::pair<std::size_t, std::uint32_t>>& here,
             std::size_t l, std::int64_t step, bool kept) {
  Rows rows;
  if (kept) {
    for (const BlockCount& b : demand.first_selected(l, step)) {
      if (!here.contains({l, b.block})) rows.remote += b.rows;
    }
  } else {
    const auto counts = demand.counts(l, step);
    for (std::uint32_t b = 0; b < counts.size(); ++b) {
      if (!here.contains({l, b})) rows.remote += counts[b];
    }
  }
  rows.local = demand.attended(l, step) - rows.remote;
  return rows;
}

double gap(const StrategyRun& run, std::size_t step) {
  const RequestTimes& t = run.times[0];
  return to_seconds(t.tokens[step + 1] - (step == 0 ? t.joined : t.tokens[step]));
}

}  // namespace

TEST_CASE(
    "on demand: a step of HATA waits for each layer's rows, in parallel or one after the other") {
  Scenario s = scenario();
  s.instances[1].gpu.host_gather_bandwidth = 0.5e9;  // local rows: 2 ns a byte
  Bench bench(s);
  const auto here = pushed(bench);
  const Demand& demand = bench.workload.demand(Selector::hata, 0);
  for (const OnDemand order : {OnDemand::parallel, OnDemand::serial}) {
    StrategyOptions options = smartgen();
    options.on_demand = order;
    const StrategyRun run = bench.run(options);
    for (const std::int64_t step : {0, 1}) {
      double expected = 5e-3 + 8 * 1e-4;
      bool both = false;
      for (std::size_t l = 2; l < kLayers; ++l) {
        const Rows rows = rows_of(demand, here, l, step, true);
        // Index: 64 B and 4 B a row towards the prefill side; then 500 B a row back.
        const double remote = rows.remote == 0
                                  ? 0
                                  : (64 + 4 * static_cast<double>(rows.remote)) * 1e-9 +
                                        static_cast<double>(rows.remote * kRowBytes) * 1e-9;
        const double local = static_cast<double>(rows.local * kRowBytes) * 2e-9;
        expected += order == OnDemand::serial ? remote + local : std::max(remote, local);
        both = both || (remote > 0 && local > 0);
      }
      CHECK(both);
      check_near(gap(run, static_cast<std::size_t>(step)), expected);
    }
  }
}

TEST_CASE("on demand: kept rows are fetched once, others at every step that selects them") {
  Scenario s = scenario();
  s.output_tokens = 9;
  Bench bench(s);
  const auto here = pushed(bench);
  const Demand& demand = bench.workload.demand(Selector::hata, 0);
  for (const bool keep : {true, false}) {
    StrategyOptions options = smartgen();
    options.keep_fetched = keep;
    const StrategyRun run = bench.run(options);
    std::int64_t rows = 0;
    for (std::int64_t step = 0; step < 8; ++step) {
      std::int64_t remote = 0;
      std::int64_t selected = 0;
      for (std::size_t l = 2; l < kLayers; ++l) {
        remote += rows_of(demand, here, l, step, keep).remote;
        selected += demand.selected(l, step);
      }
      rows += remote;
      CHECK(run.on_demand_ratio[static_cast<std::size_t>(step)] ==
            doctest::Approx(static_cast<double>(remote) / static_cast<double>(selected))
                .epsilon(1e-12));
    }
    CHECK(rows > 0);
    CHECK(run.lane_bytes[index(Lane::on_demand)].count() == rows * kRowBytes);
  }
}

TEST_CASE("on demand: read asks for every row, send for an index and a run a kv head") {
  Scenario s = scenario();
  s.instances[0].nic.max_send_sge = s.instances[1].nic.max_send_sge = 30;
  Bench bench(s);
  const auto here = pushed(bench);
  const Demand& demand = bench.workload.demand(Selector::hata, 0);
  std::int64_t bytes[2] = {0, 0};
  std::int64_t control[2] = {0, 0};
  std::int64_t index_bytes = 0;
  for (const OnDemandVia via : {OnDemandVia::send, OnDemandVia::read}) {
    StrategyOptions options = smartgen();
    options.on_demand_via = via;
    Records records;
    const StrategyRun run = bench.run(options, {}, &records);
    std::vector<TraceRecord> fetches;
    for (const TraceRecord& r : records.of(TraceKind::transfer)) {
      if (r.lane == Lane::on_demand) fetches.push_back(r);
    }
    std::size_t at = 0;
    for (const std::int64_t step : {0, 1}) {
      for (std::size_t l = 2; l < kLayers; ++l) {
        const std::int64_t remote = rows_of(demand, here, l, step, true).remote;
        if (remote == 0) continue;
        REQUIRE(at < fetches.size());
        CHECK(fetches[at].bytes.count() == remote * kRowBytes);
        // Send: one sequence x 2 kv heads = 2 pieces of 30 an SGE list: 1 request. Read: a row
        // each.
        CHECK(fetches[at].value == (via == OnDemandVia::send ? 1 : remote));
        CHECK(fetches[at].source == EndpointId(0));
        if (via == OnDemandVia::send) index_bytes += 64 + 4 * remote;
        ++at;
      }
    }
    CHECK(at == fetches.size());
    const auto i = static_cast<std::size_t>(via);
    bytes[i] = run.lane_bytes[index(Lane::on_demand)].count();
    control[i] = run.lane_bytes[index(Lane::control)].count();
  }
  CHECK(bytes[0] == bytes[1]);
  CHECK(control[0] - control[1] == index_bytes);
  // Announcement, release, and a byte of mask for each token of 2 layers and 178 blocks.
  CHECK(control[1] == 2 * 64 + 2 * 1000 + 178 * 10);
}

TEST_CASE("infinigen selects a layer ahead: rows load behind attention") {
  // Attention of 10 ms a layer hides any load of at most 2000 rows x 500 B = 1 ms; HATA's does not.
  Scenario s = round_scenario(kLayers, 1, 8_Gbps, {2e-3, 10e-3, 0});
  Bench bench(s);
  StrategyOptions options = smartgen();
  options.budget = 0;
  options.selection = Selector::infinigen;
  const StrategyRun ahead = bench.run(options);
  check_near(gap(ahead, 0), kLayers * 10e-3);
  CHECK(ahead.lane_bytes[index(Lane::on_demand)].count() > 0);
  options.selection = Selector::hata;
  const StrategyRun here = bench.run(options);
  double loads = 0;
  for (std::size_t l = 2; l < kLayers; ++l) {
    const auto rows = static_cast<double>(bench.workload.demand(Selector::hata, 0).selected(l, 0));
    loads += (64 + 4 * rows + 500 * rows) * 1e-9;
  }
  check_near(gap(here, 0), kLayers * 10e-3 + loads);
}

TEST_CASE("infinigen without enough attention: only the rest of a load is waited for") {
  // Attention 0.1 ms: the index of layer l + 1 leaves when layer l begins, its rows go behind those
  // of layer l in the same queue; layer l lasts what it waits and 0.1 ms.
  Bench bench(round_scenario(kLayers, 1, 8_Gbps, {2e-3, 1e-4, 5e-3}));
  StrategyOptions options = smartgen();
  options.selection = Selector::infinigen;
  options.budget = 0;
  const StrategyRun run = bench.run(options);
  double begin = 5e-3;  // of layer 0
  double ready = 0;     // rows of the layer at hand
  for (std::size_t l = 0; l < kLayers; ++l) {
    double next = 0;
    if (l + 1 >= 2 && l + 1 < kLayers) {
      const auto rows =
          static_cast<double>(bench.workload.demand(Selector::infinigen, 0).selected(l + 1, 0));
      next = std::max(begin + (64 + 4 * rows) * 1e-9, ready) + 500 * rows * 1e-9;
    }
    begin = std::max(begin, ready) + 1e-4;
    ready = next;
  }
  check_near(gap(run, 0), begin);
}

TEST_CASE("speculative: a share of the blocks each iteration until all are local") {
  // Nothing proactive: 600 blocks of the selecting layers are left, 80 an iteration (10 % of 800):
  // the eighth takes the last. A fast link, so that each iteration's blocks arrive within it.
  Scenario s = round_scenario(kLayers, 1, 400_Gbps, {2e-3, 1e-3, 5e-3});
  s.output_tokens = 13;
  Bench bench(s);
  StrategyOptions options = strategy(PolicyKind::smartgen);
  options.order = PushOrder::none;
  options.keep_fetched = false;
  const StrategyRun all = bench.run(options);
  CHECK(all.local_after == 8);
  CHECK(all.lane_bytes[index(Lane::speculative)].count() == 600 * 10'000);
  CHECK(all.lane_bytes[index(Lane::proactive)].count() == 2'000'000);
  CHECK(all.on_demand_ratio[0] > 0);
  for (std::size_t step = 8; step < 12; ++step) CHECK(all.on_demand_ratio[step] == 0);
  // 10 % of what is left at the start: 60 an iteration, 10 of them.
  options.ratio_of = RatioOf::remaining_at_start;
  CHECK(bench.run(options).local_after == 10);
  options.speculative = false;
  const StrategyRun off = bench.run(options);
  CHECK(!off.local_after.has_value());
  CHECK(off.lane_bytes[index(Lane::speculative)].count() == 0);
  CHECK(off.on_demand_ratio[0] == doctest::Approx(1.0));
}

}  // namespace kvlane
