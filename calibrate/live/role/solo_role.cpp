#include "calibrate/live/role/solo_role.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/utilisation.h"
#include "sim/metrics/collector.h"

namespace kvlane::live {
namespace {

constexpr Duration kLead = std::chrono::milliseconds(5);

// The modelled network with other compute than its own.
class SoloWorld final : public World {
 public:
  SoloWorld(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
            TraceSink& trace, EventLoop& loop, Compute& compute)
      : sim_(scenario, models, {}, trace, loop), compute_(compute) {}
  EventLoop& loop() override { return sim_.loop(); }
  Transport& transport() override { return sim_.transport(); }
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
        compute(loop, s, models, all_gpus(places), kind, o) {}

  const Scenario& scenario;
  const LiveOptions& options;
  Places places;
  ComputeKind kind;
  WallLoop loop;
  std::vector<std::unique_ptr<CostModel>> models;
  RoleCompute compute;
  std::map<std::uint32_t, std::unique_ptr<Workload>> workloads;
};

SoloRole::SoloRole(const Scenario& scenario, const LiveOptions& options) {
  pin_to(options.processors);
  state_ = std::make_unique<State>(scenario, options);
}

SoloRole::~SoloRole() = default;

StrategyRun SoloRole::run(const StrategyOptions& strategy, std::uint32_t seed,
                          const TraceFor& trace) {
  State& s = *state_;
  auto& workload = s.workloads[seed];
  if (!workload) workload = std::make_unique<Workload>(s.scenario, s.scenario.seed + seed);
  Sink sink(s.loop, workload->requests().size(), s.scenario.output_tokens);
  RunLoop loop(s.loop);
  loop.start_at(later(std::max(s.loop.now(), s.loop.clock()), kLead));
  SoloWorld world(s.scenario, s.models, sink, loop, s.compute);
  Deployment deployment(s.scenario, *workload, strategy, world, sink);
  s.compute.begin_run(loop, sink);
  loop.schedule_at(
      TimePoint{},
      {[](void* self, std::uint64_t) { static_cast<Deployment*>(self)->start(); }, &deployment, 0});
  s.loop.hold();
  while (sink.left > 0) {
    s.loop.run();
    deployment.rethrow();
  }
  s.loop.release();
  s.compute.end_run();

  std::vector<TraceRecord> records = std::move(sink.list.records);
  sort_records(records);
  TraceSink* next =
      trace ? trace(strategy.name, s.places.gpu_names, s.places.endpoint_names) : nullptr;
  MetricsCollector metrics(workload->requests().size(), next);
  for (const TraceRecord& record : records) metrics.record(record);
  SimWorld& sim = world.sim();
  StrategyRun run = strategy_run_of(
      s.scenario, strategy, metrics, deployment.requests(),
      [&](EndpointId from, EndpointId to) { return sim.line_rate(from, to); },
      [&](EndpointId from, EndpointId to) { return sim.latency(from, to); },
      "a request never got its second token");
  run.utilisation = utilisation_of(
      records, s.places, [&](EndpointId e) { return sim.port(e); }, metrics.last_activity());
  return run;
}

std::string SoloRole::compute() const { return to_string(state_->kind); }

}  // namespace kvlane::live
