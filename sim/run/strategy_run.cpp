#include "sim/run/strategy_run.h"

#include "sim/base/check.h"
#include "sim/run/deployment.h"

namespace kvlane {

StrategyOptions ideal_of(const StrategyOptions& options) {
  StrategyOptions ideal;
  ideal.name = "ideal of " + options.name;
  const bool keeps_policy = options.policy == PolicyKind::hack ||
                            options.policy == PolicyKind::full_dense ||
                            options.policy == PolicyKind::colocated;
  ideal.policy = keeps_policy ? options.policy : PolicyKind::full;
  ideal.payload = options.payload;
  ideal.hack_select = options.hack_select;
  ideal.hack_partition = options.hack_partition;
  ideal.kv_placement = options.kv_placement;
  ideal.selection = options.selection;
  ideal.gdr = options.gdr;
  ideal.early_prefix = options.early_prefix;  // saves PCIe at the end, whatever the link
  return ideal;
}

std::string ideal_key(const StrategyOptions& o) {
  return fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(o.policy),
                     static_cast<int>(o.payload), static_cast<int>(o.hack_select), o.hack_partition,
                     o.kv_placement ? static_cast<int>(*o.kv_placement) : -1,
                     o.selection ? static_cast<int>(*o.selection) : -1,
                     o.gdr ? static_cast<int>(*o.gdr) : -1, o.early_prefix);
}

StrategyRun strategy_run_of(const Scenario& scenario, const StrategyOptions& options,
                            const MetricsCollector& metrics, const std::vector<RequestPlan>& plans,
                            const std::function<Bandwidth(EndpointId, EndpointId)>& line_rate,
                            const std::function<Duration(EndpointId, EndpointId)>& latency,
                            const std::string& cannot_finish) {
  if (!metrics.finished()) {
    throw RunError(fmt::format("{}: strategy {} cannot finish: {}", scenario.name, options.name,
                               cannot_finish));
  }
  StrategyRun run;
  run.times = metrics.request_times(line_rate, latency);
  run.lane_bytes = metrics.lane_bytes();
  run.metadata = metrics.metadata_bytes();
  run.transfer = metrics.transfer_time();
  run.on_demand_ratio = metrics.on_demand_ratio();
  run.local_after = metrics.local_after();
  run.end = metrics.end();
  run.switched_to_full = metrics.switched_to_full();
  run.hash = metrics.hash();
  if (attends_to_all(options)) {
    run.attention_mass = 1.0;
  } else {
    // 0: unknown, as for a recorded trace.
    double mass = 0;
    for (const RequestPlan& plan : plans) mass += plan.demand->attention_mass();
    if (mass > 0) run.attention_mass = mass / static_cast<double>(plans.size());
  }
  return run;
}

StrategyRun run_strategy(const Scenario& scenario, Workload& workload,
                         const std::vector<std::unique_ptr<CostModel>>& models,
                         const StrategyOptions& options, LinkSpeed speed, const TraceFor& trace) {
  const std::size_t count = workload.requests().size();

  struct LateSink final : TraceSink {
    TraceSink* target = nullptr;
    void record(const TraceRecord& record) override {
      if (target != nullptr) target->record(record);
    }
  } late;
  MetricsCollector metrics(count, trace ? &late : nullptr);
  SimWorld world(scenario, models, speed, metrics);
  if (trace) late.target = trace(options.name, world.gpu_names(), world.endpoint_names());

  DeploymentOptions deployment_options;
  deployment_options.free_gather = speed.infinite;
  Deployment deployment(scenario, workload, options, world, metrics, deployment_options);
  deployment.start();
  world.loop().run();
  deployment.rethrow();

  StrategyRun run = strategy_run_of(
      scenario, options, metrics, deployment.requests(),
      [&](EndpointId from, EndpointId to) { return world.line_rate(from, to); },
      [&](EndpointId from, EndpointId to) { return world.latency(from, to); },
      scenario.link_events.empty() ? "a transfer would last beyond the clock's range of 106 days"
                                   : "a link of network.events stays down while requests wait");
  world.mark_copies();
  run.utilisation = world.utilisation(metrics.last_activity());
  return run;
}

}  // namespace kvlane
