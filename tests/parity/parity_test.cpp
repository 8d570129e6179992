// One policy, two worlds: a scenario runs in the simulator and live, over sockets with real bytes.
// Every decision is a function of its events: what either world recorded replays through a fresh
// policy, and where the worlds saw the same events in the same order they decided the same.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/run/deployment.h"
#include "tests/live/role_mesh.h"
#include "tests/support/recording_policy.h"
#include "tests/support/round_scenario.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

// Three prefill instances, three prompts of two lengths, one of them with a cached prefix. Small
// enough that an unoptimised build moves every byte in seconds.
Scenario scenario() {
  Scenario s = round_scenario(5, 1, 8_Gbps, {0.4e-3, 0.2e-3, 0.1e-3});
  s.instances[0].count = 3;
  // TCP stages through host memory.
  for (InstanceGroup& group : s.instances) group.nic.gpu_direct = false;
  s.instances[1].gpu.host_gather_bandwidth = 4e9;
  s.instances[1].gpu.pcie_h2d = 64_Gbps;
  s.instances[0].gpu.pcie_d2h = 64_Gbps;
  s.prompts = {{2, 200, 0.5}, {1, 150, 0}};
  s.serving.blocks = 20;
  s.serving.router_hop = 30_us;
  s.serving.allocate = 10_us;
  s.serving.idle_poll = 20_us;
  s.output_tokens = 5;
  return s;
}

std::vector<StrategyOptions> every_strategy() {
  std::vector<StrategyOptions> all;
  const auto add = [&](std::string name, PolicyKind policy, auto change) {
    all.push_back(strategy(policy, std::move(name)));
    change(all.back());
  };
  const auto as_is = [](StrategyOptions&) {};
  for (const PolicyKind policy : {PolicyKind::ideal, PolicyKind::full, PolicyKind::full_dense,
                                  PolicyKind::sequential, PolicyKind::hack, PolicyKind::smartgen}) {
    add(to_string(policy), policy, as_is);
  }
  all[3].order = PushOrder::sequential;
  add("full after prefill", PolicyKind::full, [](auto& o) { o.overlap = Overlap::none; });
  add("full, early prefix", PolicyKind::full, [](auto& o) { o.early_prefix = true; });
  add("full, int4", PolicyKind::full, [](auto& o) { o.payload = Payload::int4; });
  add("hack, selected", PolicyKind::hack, [](auto& o) { o.hack_select = HackSelect::selected; });
  add("hack on the GPU", PolicyKind::hack, [](auto& o) { o.kv_placement = KvPlacement::gpu; });
  for (const PushOrder order :
       {PushOrder::profile, PushOrder::layer_totals_recency, PushOrder::recency,
        PushOrder::own_queries, PushOrder::own_queries_profile, PushOrder::sequential,
        PushOrder::sequential_tokens, PushOrder::random, PushOrder::none, PushOrder::oracle}) {
    add("order " + std::to_string(static_cast<int>(order)), PolicyKind::smartgen,
        [&](auto& o) { o.order = order; });
  }
  add("serial, read", PolicyKind::smartgen, [](auto& o) {
    o.on_demand = OnDemand::serial;
    o.on_demand_via = OnDemandVia::read;
    o.keep_fetched = false;
  });
  add("background only", PolicyKind::smartgen, [](auto& o) {
    o.budget = 0;
    o.speculative_chunk = 2;
    o.speculative_in_flight = Bytes(40'000);
    o.ratio_of = RatioOf::remaining_at_start;
  });
  add("hata, fp8, no gdr, early prefix", PolicyKind::smartgen, [](auto& o) {
    o.selection = Selector::hata;
    o.payload = Payload::fp8;
    o.gdr = false;
    o.early_prefix = true;
  });
  add("switches to full", PolicyKind::smartgen, [](auto& o) { o.auto_switch = true; });
  return all;
}

// Without the completions of proactive writes: when they come is the wire's affair, and no policy
// decides anything on them.
std::vector<RecordedEvent> deciding_events(const PolicyRecord& record) {
  std::vector<RecordedEvent> events;
  for (const RecordedEvent& e : record.events) {
    const auto* completed = std::get_if<WriteCompleted>(&e.event);
    if (completed != nullptr && completed->lane == Lane::proactive) {
      CHECK(e.actions.empty());
    } else {
      events.push_back(e);
    }
  }
  return events;
}

std::vector<std::size_t> tokens_of(const Records& records, std::size_t requests) {
  std::vector<std::size_t> count(requests, 0);
  for (const TraceRecord& r : records.of(TraceKind::token)) ++count[r.request.index()];
  return count;
}

// Bytes of KV and metadata by lane that no timing changes: what is posted before decoding.
Bytes proactive(const Records& records) {
  Bytes sum(0);
  for (const TraceRecord& r : records.of(TraceKind::transfer)) {
    if (r.lane == Lane::proactive) sum += r.bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("parity: every strategy decides the same in both worlds") {
  Scenario s = scenario();
  for (const StrategyOptions& options : every_strategy()) s.strategies.push_back(options);
  live::LiveOptions live_options;
  live_options.verify = true;
  live::WallLoop loop;
  live::test::RoleMesh mesh(loop, s, live_options, live::test::tcp_wire);
  Bench bench(s);
  Workload& workload = bench.workload;
  const std::size_t requests = workload.requests().size();
  std::size_t alike = 0;  // policies that saw the same events in the same order
  std::size_t policies = 0;
  for (std::uint32_t number = 0; number < s.strategies.size(); ++number) {
    const StrategyOptions& options = s.strategies[number];
    CAPTURE(options.name);

    PolicyRecorder simulated;
    Records sim_records;
    DeploymentOptions sim_options;
    sim_options.policy = simulated.factory();
    SimWorld sim_world(s, bench.models(), {}, sim_records);
    Deployment sim(s, workload, options, sim_world, sim_records, sim_options);
    sim.start();
    sim_world.loop().run();
    sim.rethrow();

    // Four roles: three prefill instances and the decode instance, over sockets.
    PolicyRecorder lived;
    for (auto& end : mesh.ends) end->deployment_options.policy = lived.factory();
    const std::int64_t verified_before = mesh.decode().verified_bytes;
    Records live_records;
    live_records.all = mesh.run(number);  // throws where a byte is wrong

    // The same tokens in both worlds, and the same bytes where no timing changes them.
    CHECK(tokens_of(live_records, requests) == tokens_of(sim_records, requests));
    CHECK(tokens_of(live_records, requests) == std::vector<std::size_t>(requests, 5));
    CHECK(proactive(live_records) == proactive(sim_records));
    for (const auto& end : mesh.ends) {
      const live::LiveCounters& counters = end->transport->counters();
      CHECK(counters.completed == counters.posted);
      CHECK(counters.stale == 0);
    }
    // What the policies wrote was looked at where it arrived.
    std::int64_t written = 0;
    for (const auto& record : lived.records()) {
      for (const RecordedEvent& e : record->events) {
        for (const PolicyAction& action : e.actions) {
          if (const auto* w = std::get_if<WriteBlocks>(&action)) written += w->bytes.count();
          if (const auto* w = std::get_if<WriteMetadata>(&action)) written += w->bytes.count();
        }
      }
    }
    CHECK(written > 0);
    CHECK(mesh.decode().verified_bytes - verified_before >= written);

    // Any world's events give the recorded decisions, through a fresh policy.
    CHECK(simulated.records().size() == lived.records().size());
    CHECK(simulated.records().size() == 2 * requests);
    for (const auto& record : lived.records()) {
      const RequestPlan& plan = sim.requests()[record->request.index()];
      CHECK(replay(*record, plan) == record->events.size());
      const PolicyRecord* twin = simulated.find(record->request, record->side);
      REQUIRE(twin != nullptr);
      CHECK(replay(*twin, plan) == twin->events.size());
      // As long as both saw the same events, they decided the same. At the prefill side that is
      // at least the prefill: its start, its layers, its end.
      const std::vector<RecordedEvent> a = deciding_events(*record);
      const std::vector<RecordedEvent> b = deciding_events(*twin);
      std::size_t i = 0;
      while (i < std::min(a.size(), b.size()) && same_event(a[i], b[i])) {
        CHECK(a[i].actions == b[i].actions);
        ++i;
      }
      if (record->side == PolicySide::prefill) CHECK(i >= 1 + s.model.layers.size() + 1);
      ++policies;
      if (i == a.size() && i == b.size()) ++alike;
    }
  }
  MESSAGE(alike, " of ", policies, " policies saw the same events from first to last");
  CHECK(alike > 0);
}

}  // namespace kvlane
