#include "calibrate/live/role/summary.h"

#include "calibrate/live/role/utilisation.h"
#include "sim/metrics/collector.h"

namespace kvlane::live {

StrategyRun summarise(const Scenario& scenario, const StrategyOptions& strategy,
                      const std::vector<RequestPlan>& plans,
                      const std::vector<TraceRecord>& records, const Places& places,
                      SimWorld& rates, const TraceFor& trace) {
  TraceSink* sink = trace ? trace(strategy.name, places.gpu_names, places.endpoint_names) : nullptr;
  MetricsCollector metrics(plans.size(), sink);
  for (const TraceRecord& record : records) metrics.record(record);
  StrategyRun run = strategy_run_of(
      scenario, strategy, metrics, plans,
      [&](EndpointId from, EndpointId to) { return rates.line_rate(from, to); },
      [&](EndpointId from, EndpointId to) { return rates.latency(from, to); },
      "a request never got its second token");
  run.utilisation = utilisation_of(
      records, places, [&](EndpointId e) { return rates.port(e); }, metrics.last_activity());
  return run;
}

}  // namespace kvlane::live
