// Properties of whole runs over small random scenarios.

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/run/deployment.h"
#include "sim/run/run.h"
#include "tests/support/recording_policy.h"
#include "tests/support/round_scenario.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

template <class Property>
void holds(const char* what, Property property) {
  CHECK(rc::check(what, property));
}

// Ends of flows are rounded up to a picosecond, at other moments in other runs.
constexpr Duration kRounding(100);

int pick(int low, int high) { return *rc::gen::inRange(low, high + 1); }

// One to three prompts of 60 to 300 tokens; every option of the serving side that changes its path.
Scenario any_scenario() {
  Scenario s =
      round_scenario(static_cast<std::size_t>(pick(3, 6)), 1, Bandwidth::gbit_per_sec(pick(1, 40)),
                     {pick(0, 10) * 1e-4, pick(0, 5) * 1e-4, pick(0, 10) * 1e-4});
  s.prompts.clear();
  const int prompts = pick(1, 3);
  for (int i = 0; i < prompts; ++i) s.prompts.push_back({1, pick(60, 300), pick(0, 3) / 4.0});
  s.instances[0].count = pick(1, 2);
  s.instances[0].gpus = pick(1, 2);
  s.instances[0].nic.rate = Bandwidth::gbit_per_sec(pick(1, 40));
  s.instances[1].gpus = pick(1, 2);
  s.instances[0].gpu.host_gather_bandwidth = pick(0, 2) * 2e9;
  for (InstanceGroup& g : s.instances) {
    g.gpu.pcie_h2d = g.gpu.pcie_d2h = Bandwidth::gbit_per_sec(pick(8, 200));
    g.gpu.pcie_copy = Duration(pick(0, 3) * 1'000'000);
    g.nic.latency = Duration(pick(0, 3) * 2'000'000);
    g.nic.lane_priority = pick(0, 1) == 1;
  }
  s.serving.blocks = pick(4, 40);
  s.serving.idle_poll = Duration(pick(0, 2) * 100'000'000);
  s.serving.router_hop = Duration(pick(0, 2) * 50'000'000);
  s.serving.allocate = Duration(pick(0, 2) * 10'000'000);
  s.serving.first_token = static_cast<FirstToken>(pick(0, 2));
  s.output_tokens = pick(2, 8);
  s.seed = static_cast<std::uint64_t>(pick(1, 1000));
  return s;
}

StrategyOptions any_strategy() {
  StrategyOptions o =
      strategy(*rc::gen::element(PolicyKind::full, PolicyKind::full_dense, PolicyKind::sequential,
                                 PolicyKind::hack, PolicyKind::smartgen, PolicyKind::smartgen));
  o.overlap = static_cast<Overlap>(pick(0, 1));
  o.order = static_cast<PushOrder>(pick(0, 9));
  if (pick(0, 2) == 0) o.budget = pick(0, 10) / 10.0;
  o.on_demand = static_cast<OnDemand>(pick(0, 1));
  o.on_demand_via = static_cast<OnDemandVia>(pick(0, 1));
  o.speculative = pick(0, 3) > 0;
  o.speculative_ratio = pick(1, 5) / 10.0;
  o.speculative_chunk = pick(0, 4);
  o.keep_fetched = pick(0, 1) == 1;
  o.early_prefix = pick(0, 1) == 1;
  o.selection = static_cast<Selector>(pick(0, 1));
  if (pick(0, 2) == 0) o.gdr = pick(0, 1) == 1;
  o.auto_switch = pick(0, 4) == 0;
  return o;
}

// A run with the decisions of its policies beside its trace.
struct RecordedRun {
  RecordedRun(Bench& bench, const StrategyOptions& options)
      : world(bench.scenario, bench.models(), {}, records),
        deployment(bench.scenario, bench.workload, options, world, records,
                   {false, recorder.factory()}) {
    deployment.start();
    world.loop().run();
    deployment.rethrow();
  }
  PolicyRecorder recorder;
  Records records;
  SimWorld world;
  Deployment deployment;
};

}  // namespace

TEST_CASE("properties: bytes sent are bytes received, in every lane") {
  holds("sent = received", [] {
    Bench bench(any_scenario());
    const StrategyOptions options = any_strategy();
    RecordedRun run(bench, options);
    // Sent: what the policies decided; on demand, what the selections were missing.
    std::map<Lane, std::int64_t> sent, received;
    std::int64_t metadata_sent = 0, metadata_received = 0, told = 0;
    for (const auto& record : run.recorder.records()) {
      for (const RecordedEvent& e : record->events) {
        for (const PolicyAction& action : e.actions) {
          if (const auto* w = std::get_if<WriteBlocks>(&action)) sent[w->lane] += w->bytes.count();
          if (const auto* m = std::get_if<WriteMetadata>(&action))
            metadata_sent += m->bytes.count();
        }
        if (std::holds_alternative<BlocksArrived>(e.event)) {
          for (const BlockRun& r : e.runs) {
            told +=
                run.deployment.requests()[record->request.index()].transfer.wire_bytes(r).count();
          }
        }
      }
    }
    std::int64_t rows = 0;
    for (const TraceRecord& r : run.records.all) {
      if (r.kind == TraceKind::selection) rows += r.bytes.count();
      if (r.kind != TraceKind::transfer) continue;
      (r.metadata ? metadata_received : received[r.lane]) += r.bytes.count();
    }
    RC_ASSERT(received[Lane::proactive] == sent[Lane::proactive]);
    RC_ASSERT(received[Lane::speculative] == sent[Lane::speculative]);
    RC_ASSERT(received[Lane::on_demand] == rows * kRowBytes);
    RC_ASSERT(metadata_received == metadata_sent);
    // And the decode side was told of all of it.
    RC_ASSERT(told == sent[Lane::proactive] + sent[Lane::speculative]);
  });
}

TEST_CASE("properties: no block is used before it arrived, and none arrives twice") {
  holds("use after arrival", [] {
    Bench bench(any_scenario());
    StrategyOptions options = any_strategy();
    options.policy = PolicyKind::smartgen;
    options.keep_fetched = false;  // what is remote is then a matter of arrivals alone
    options.auto_switch = false;
    RecordedRun run(bench, options);
    const Selector selector = *options.selection;
    for (const RequestPlan& plan : run.deployment.requests()) {
      const KvLayout& layout = *plan.transfer.layout;
      const auto layers = static_cast<std::size_t>(layout.layer_count());
      std::map<std::pair<std::size_t, std::uint32_t>, TimePoint> arrival;
      std::set<std::uint32_t> metadata;
      for (const RecordedEvent& e : run.recorder.find(plan.id, PolicySide::decode)->events) {
        for (const BlockRun& r : e.runs) {
          for (std::uint32_t b = r.first; b < r.first + r.count; ++b) {
            RC_ASSERT(arrival.emplace(std::pair{std::size_t{r.layer}, b}, e.now).second);
          }
        }
        if (const auto* a = std::get_if<BlocksArrived>(&e.event); a && a->metadata_of.is_valid()) {
          metadata.insert(a->metadata_of.value());
        }
        for (const PolicyAction& action : e.actions) {
          if (!std::holds_alternative<StartDecode>(action)) continue;
          for (std::size_t l = 0; l < layers; ++l) {
            const LayerLayout& layer = layout.layer(l);
            for (std::int64_t m = 0; layer.dense && m < layer.block_count; ++m) {
              RC_ASSERT(arrival.contains({l, static_cast<std::uint32_t>(layer.first_block + m)}));
            }
            RC_ASSERT(layer.dense || metadata.contains(static_cast<std::uint32_t>(l)));
          }
        }
      }
      // Between the start and the end of a step, what had not arrived at its end was remote, what
      // had at its start was not.
      std::vector<TimePoint> begins, ends;
      std::vector<std::int64_t> remote, local;
      TimePoint joined{};
      for (const TraceRecord& r : run.records.all) {
        if (r.request != plan.id) continue;
        if (r.kind == TraceKind::joined) joined = r.begin;
        if (r.kind == TraceKind::selection) {
          begins.push_back(ends.empty() ? joined : ends.back());
          ends.push_back(r.begin);
          remote.push_back(r.bytes.count());
        }
        if (r.kind == TraceKind::local_blocks) local.push_back(r.value);
      }
      const Demand& demand = bench.workload.demand(selector, plan.id.index());
      for (std::size_t step = 0; step < remote.size(); ++step) {
        std::int64_t least = 0, most = 0;
        for (std::size_t l = 0; l < layers; ++l) {
          if (!demand.selects(l)) continue;
          const auto counts = demand.counts(l, static_cast<std::int64_t>(step));
          for (std::uint32_t b = 0; b < counts.size(); ++b) {
            const auto found = arrival.find({l, b});
            const TimePoint there = found == arrival.end() ? kNever : found->second;
            if (there > ends[step]) least += counts[b];
            if (there > begins[step]) most += counts[b];
          }
        }
        RC_ASSERT(least <= remote[step]);
        RC_ASSERT(remote[step] <= most);
      }
      // The mask never goes back.
      RC_ASSERT(std::is_sorted(local.begin(), local.end()));
    }
  });
}

// In one batch the ideal can lose a single request, and even the mean. With an infinite link the
// first prompt joins early; the next one, ready a moment later, then waits for the whole step that
// has just begun, and its bytes share PCIe with that step's rows, where a slower transfer has both
// join together. And a PCIe copy has a fixed cost: a layer whose rows all come from afar by
// GPUDirect saves it, the ideal, whose rows are all local, pays it. So: where each sequence has a
// worker of its own and copies have no fixed cost, nothing is sooner than in the ideal.
TEST_CASE("properties: no strategy beats its own ideal where each sequence has its own worker") {
  holds("ttst >= ideal's", [] {
    Scenario s = any_scenario();
    s.instances[1].gpus = 3;
    s.instances[1].gpu.pcie_copy = Duration::zero();
    Bench bench(s);
    const StrategyOptions options = any_strategy();
    const StrategyRun mine = bench.run(options);
    const StrategyRun best = bench.ideal(options);
    for (std::size_t i = 0; i < mine.times.size(); ++i) {
      RC_ASSERT(mine.times[i].data_ready + kRounding >= best.times[i].data_ready);
      RC_ASSERT(mine.times[i].ttst() + kRounding >= best.times[i].ttst());
      RC_ASSERT(mine.times[i].jct() + kRounding >= best.times[i].jct());
    }
  });
}

TEST_CASE("properties: more bandwidth never delays the last byte of full over one shared port") {
  holds("monotone in bandwidth", [] {
    Scenario s = any_scenario();
    s.instances[0].nic.rate = 400_Gbps;
    // Else rows of requests that decode already share PCIe with what arrives for the others.
    s.instances[1].gpu.pcie_h2d = Bandwidth::unlimited();
    StrategyOptions options = strategy(PolicyKind::full);
    const auto last_byte = [&](int gbps) {
      s.instances[1].nic.rate = Bandwidth::gbit_per_sec(gbps);
      Records records;
      Bench(s).run(options, {}, &records);
      TimePoint last{};
      for (const TraceRecord& r : records.of(TraceKind::transfer)) {
        if (r.lane == Lane::proactive) last = std::max(last, r.end);
      }
      return last;
    };
    const int slow = pick(1, 30);
    RC_ASSERT(last_byte(slow + pick(1, 30)) <= last_byte(slow) + kRounding);
  });
}

TEST_CASE("properties: two runs are the same, byte for byte") {
  holds("deterministic", [] {
    Scenario s = any_scenario();
    s.strategies = {any_strategy()};
    RunOptions options;
    options.verdict = false;
    const Result a = run_scenario(s, options);
    const Result b = run_scenario(s, options);
    RC_ASSERT(a.run_hash == b.run_hash);
    RC_ASSERT(a.strategies[0].ttst_s.mean == b.strategies[0].ttst_s.mean);
    RC_ASSERT(a.strategies[0].bytes_total == b.strategies[0].bytes_total);
  });
}

TEST_CASE("properties: full's bytes are the layout's, its metadata and its control messages") {
  holds("full's total", [] {
    Bench bench(any_scenario());
    const StrategyRun run = bench.run(strategy(PolicyKind::full));
    std::int64_t kv = 0, metadata = 0, tokens = 0;
    for (const Workload::Request& r : bench.workload.requests()) {
      kv += r.layout->total_bytes().count();
      // A tenth of what selects: 50 B of 500 a row; a mask byte a token of every layer.
      metadata += (r.layout->total_bytes() - r.layout->dense_bytes()).count() / 10;
      tokens += r.prompt_tokens * r.layout->layer_count();
    }
    const auto requests = static_cast<std::int64_t>(run.times.size());
    RC_ASSERT(run.lane_bytes[index(Lane::proactive)].count() == kv);
    RC_ASSERT(run.metadata.count() == metadata);
    RC_ASSERT(run.lane_bytes[index(Lane::control)].count() == requests * 2 * 64 + tokens);
    RC_ASSERT(run.lane_bytes[index(Lane::on_demand)].count() == 0);
  });
}

}  // namespace kvlane
