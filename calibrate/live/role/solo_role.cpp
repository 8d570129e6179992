#include "calibrate/live/role/solo_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/run_memory.h"
#include "calibrate/live/role/summary.h"
#include "calibrate/live/transport/carrying_transport.h"

namespace kvlane::live {
namespace {

constexpr Duration kLead = std::chrono::milliseconds(5);

// The modelled network with other compute than its own, and with bytes where these are wanted.
class SoloWorld final : public World {
 public:
  SoloWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
            TraceSink& trace, EventLoop& loop, Compute& compute)
      : sim_(scenario, models, {}, trace, loop), compute_(compute) {}
  EventLoop& loop() override { return sim_.loop(); }
  Transport& transport() override {
    return carrying_ ? static_cast<Transport&>(*carrying_) : sim_.transport();
  }
  void carry(std::vector<CarryingTransport::End> ends) {
    carrying_.emplace(sim_.transport(), std::move(ends));
  }
  bool moves_bytes() const override { return carrying_.has_value(); }
  CarryingTransport& carrying() { return *carrying_; }
  Compute& compute() override { return compute_; }
  const std::vector<Instance>& instances() const override { return sim_.instances(); }
  Bandwidth path(EndpointId prefill, EndpointId decode) const override {
    return sim_.path(prefill, decode);
  }
  Bandwidth port(EndpointId endpoint) const override { return sim_.port(endpoint); }
  SimWorld& sim() { return sim_; }

 private:
  SimWorld sim_;
  Compute& compute_;
  std::optional<CarryingTransport> carrying_;
};

// The memory of an endpoint, for all runs.
struct EndMemory {
  explicit EndMemory(std::int64_t bytes) : pool(static_cast<std::size_t>(bytes)), regions(pool) {}
  Pool pool;
  RegionTable regions;
};

std::vector<GpuId> all_gpus(const Places& places) {
  std::vector<GpuId> gpus;
  for (const auto& some : places.gpus) gpus.insert(gpus.end(), some.begin(), some.end());
  return gpus;
}

struct Sink final : TraceSink {
  Sink(WallLoop& l, std::size_t requests, std::int64_t tokens)
      : loop(l), left(requests), last(tokens) {}
  void record(const TraceRecord& r) override {
    list.record(r);
    if (r.kind == TraceKind::token && r.iteration == last && --left == 0) loop.stop();
  }
  WallLoop& loop;
  RecordList list;
  std::size_t left;
  std::int64_t last;
};

}  // namespace

struct SoloRole::State {
  State(const Scenario& s, const LiveOptions& o)
      : scenario(s),
        options(o),
        places(places_of(s)),
        kind(choose_compute(o)),
        models(make_cost_models(s)),
        compute(loop, s, models, all_gpus(places), kind, o) {
    if (!o.verify) return;
    const std::int64_t bytes = most_region_bytes(s, workload(0));
    check_memory(bytes, 2);  // each prefill endpoint fills its requests' regions alone
    for (std::size_t e = 0; e < places.endpoint_names.size(); ++e) {
      memory.push_back(std::make_unique<EndMemory>(bytes));
    }
  }

  Workload& workload(std::uint32_t seed) {
    auto& made = workloads[seed];
    if (!made) made = std::make_unique<Workload>(scenario, scenario.seed + seed);
    return *made;
  }

  const Scenario& scenario;
  const LiveOptions& options;
  Places places;
  ComputeKind kind;
  WallLoop loop;
  std::vector<std::unique_ptr<CostModel>> models;
  RoleCompute compute;
  std::map<std::uint32_t, std::unique_ptr<Workload>> workloads;
  std::vector<std::unique_ptr<EndMemory>> memory;  // by endpoint; empty: no bytes
  std::uint64_t runs = 0;
  std::int64_t verified_bytes = 0;
};

SoloRole::SoloRole(const Scenario& scenario, const LiveOptions& options) {
  pin_to(options.processors);
  state_ = std::make_unique<State>(scenario, options);
}

SoloRole::~SoloRole() = default;

StrategyRun SoloRole::run(const StrategyOptions& strategy, std::uint32_t seed,
                          const TraceFor& trace) {
  State& s = *state_;
  Workload& workload = s.workload(seed);
  Sink sink(s.loop, workload.requests().size(), s.scenario.output_tokens);
  RunLoop loop(s.loop);
  SoloWorld world(s.scenario, s.models, sink, loop, s.compute);
  std::vector<CarryingTransport::End> ends;
  for (const auto& memory : s.memory) ends.push_back({&memory->regions, nullptr});
  if (!ends.empty()) world.carry(std::move(ends));
  Deployment deployment(s.scenario, workload, strategy, world, sink);
  const std::function<void()> nobody_waits = [] {};
  std::deque<RunMemory> memories;
  ++s.runs;
  for (std::size_t e = 0; e < s.memory.size(); ++e) {
    RunMemory& memory = memories.emplace_back(deployment, s.memory[e]->regions, EndpointId(e),
                                              s.places.decode, s.runs, true, nobody_waits);
    memory.expose();
    world.carrying().inspect(EndpointId(e), memory.inspector());
  }
  loop.start_at(later(std::max(s.loop.now(), s.loop.clock()), kLead));
  s.compute.begin_run(loop, sink);
  loop.schedule_at(
      TimePoint{},
      {[](void* self, std::uint64_t) { static_cast<Deployment*>(self)->start(); }, &deployment, 0});
  s.loop.hold();
  while (sink.left > 0) {
    s.loop.run();
    deployment.rethrow();
  }
  // What has no reader any more still comes, and lies in memory that is looked at.
  while (!memories.empty() && world.carrying().in_flight() > 0) {
    loop.schedule_after(
        std::chrono::milliseconds(1),
        {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &s.loop, 0});
    s.loop.run();
  }
  s.loop.release();
  s.compute.end_run();
  for (RunMemory& memory : memories) {
    s.verified_bytes += memory.check();
    memory.withdraw();
  }

  std::vector<TraceRecord> records = std::move(sink.list.records);
  sort_records(records);
  return summarise(s.scenario, strategy, deployment.requests(), records, s.places, world.sim(),
                   trace);
}

std::int64_t SoloRole::verified_bytes() const { return state_->verified_bytes; }
std::string SoloRole::compute() const { return to_string(state_->kind); }

}  // namespace kvlane::live
