// One policy, two worlds: a scenario runs in the simulator and on a wall clock with real bytes.
// Every decision is a function of its events: what either world recorded replays through a fresh
// policy of the other, and where the worlds saw the same events in the same order they decided the
// same.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/run/deployment.h"
#include "tests/support/live_world.h"
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
  for (const PolicyKind policy :
       {PolicyKind::ideal, PolicyKind::full, PolicyKind::full_dense, PolicyKind::sequential,
        PolicyKind::hack, PolicyKind::smartgen, PolicyKind::colocated}) {
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
  const Scenario s = scenario();
  std::size_t alike = 0;  // policies that saw the same events in the same order
  std::size_t policies = 0;
  for (const StrategyOptions& options : every_strategy()) {
    CAPTURE(options.name);
    Bench bench(s);
    Workload& workload = bench.workload;
    const std::size_t requests = workload.requests().size();

    PolicyRecorder simulated;
    Records sim_records;
    DeploymentOptions sim_options;
    sim_options.policy = simulated.factory();
    SimWorld sim_world(s, bench.models(), {}, sim_records);
    Deployment sim(s, workload, options, sim_world, sim_records, sim_options);
    sim.start();
    sim_world.loop().run();
    sim.rethrow();

    PolicyRecorder lived;
    Records live_records;
    DeploymentOptions live_options;
    live_options.policy = lived.factory();
    LiveWorld live_world(s, bench.models(), live_records, 2);
    Deployment live(s, workload, options, live_world, live_records, live_options);
    SocketTransport& sockets = live_world.transport();
    live.start();
    // Memory stands where the router has put the request; the KV is at its prefill instance.
    const EndpointId decode(3);
    for (const RequestPlan& plan : live.requests()) {
      // A slack byte: layers of another width are rounded up one by one.
      sockets.register_region(live.prefill_of(plan.id), plan.region, Bytes(plan.region_bytes + 1));
    }
    live_world.loop().run();
    live.rethrow();

    // The same tokens, in order, in both worlds.
    CHECK(tokens_of(live_records, requests) == tokens_of(sim_records, requests));
    CHECK(tokens_of(live_records, requests) == std::vector<std::size_t>(requests, 5));

    // Every byte that was posted has arrived once, as it was; every post was completed.
    CHECK(sockets.completed() == sockets.posted());
    CHECK(sockets.received() == sockets.sent());
    CHECK(sockets.wrong_bytes() == 0);
    CHECK(proactive(live_records) == proactive(sim_records));
    const bool colocated = options.policy == PolicyKind::colocated;
    CHECK((sockets.sent() > Bytes(0)) == !colocated);
    for (const RequestPlan& plan : live.requests()) {
      if (colocated) continue;
      // What the policy wrote is what lies in the decode side's memory.
      const KvLayout& layout = *plan.transfer.layout;
      std::int64_t whole = 0;
      for (const auto& record : lived.records()) {
        if (record->request != plan.id || record->side != PolicySide::prefill) continue;
        for (const RecordedEvent& e : record->events) {
          for (const PolicyAction& action : e.actions) {
            if (const auto* w = std::get_if<WriteBlocks>(&action)) whole += w->bytes.count();
            if (const auto* w = std::get_if<WriteMetadata>(&action)) whole += w->bytes.count();
          }
        }
      }
      const std::int64_t landed = sockets.arrived(decode, plan.region).count();
      // Rounded-up pieces may share a byte with their neighbour.
      CHECK(landed <= whole);
      CHECK(landed >= whole - layout.total_blocks());
      if (plan.transfer.wire_ratio == 1) CHECK(landed == whole);
    }

    // Any world's events give the recorded decisions, through a policy of the other's plan.
    CHECK(simulated.records().size() == lived.records().size());
    CHECK(simulated.records().size() == (colocated ? 0 : 2 * requests));
    for (const auto& record : lived.records()) {
      CHECK(replay(*record, sim.requests()[record->request.index()]) == record->events.size());
      const PolicyRecord* twin = simulated.find(record->request, record->side);
      REQUIRE(twin != nullptr);
      CHECK(replay(*twin, live.requests()[twin->request.index()]) == twin->events.size());
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
