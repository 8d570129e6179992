#pragma once
// One strategy of one scenario and seed, from the first arrival to the last token.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/metrics/collector.h"
#include "sim/report/result.h"
#include "sim/run/workload.h"
#include "sim/run/world.h"
#include "sim/serving/environment.h"

namespace kvlane {

// A run that cannot finish (a link that never comes back): exit status 1, not bad input.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StrategyRun {
  std::vector<RequestTimes> times;  // by request
  std::array<Bytes, kLaneCount> lane_bytes{};
  Bytes metadata{0};
  Duration transfer{0};
  std::vector<double> on_demand_ratio;
  std::optional<std::int64_t> local_after;
  std::optional<double> attention_mass;
  std::vector<std::pair<std::string, double>> utilisation;
  TimePoint end{};
  std::int64_t switched_to_full = 0;  // requests, by auto-switch
  std::uint64_t hash = 0;
};

// Names the world's GPUs and endpoints and gives the sink that gets every record.
using TraceFor =
    std::function<TraceSink*(const std::string& strategy, const std::vector<std::string>& gpus,
                             const std::vector<std::string>& endpoints)>;

StrategyRun run_strategy(const Scenario& scenario, Workload& workload,
                         const std::vector<std::unique_ptr<CostModel>>& models,
                         const StrategyOptions& options, LinkSpeed speed,
                         const TraceFor& trace = nullptr);

// What a finished run amounts to, from its records. RunError names `cannot_finish` when a request
// never got its second token. `line_rate`, `latency`: of the path alone.
StrategyRun strategy_run_of(const Scenario& scenario, const StrategyOptions& options,
                            const MetricsCollector& metrics, const std::vector<RequestPlan>& plans,
                            const std::function<Bandwidth(EndpointId, EndpointId)>& line_rate,
                            const std::function<Duration(EndpointId, EndpointId)>& latency,
                            const std::string& cannot_finish);

// The strategy whose run over an infinite link is `options`' ideal: the same selection, placement
// and payload, everything sent. Equal ideals compare equal by key().
StrategyOptions ideal_of(const StrategyOptions& options);
std::string ideal_key(const StrategyOptions& ideal);

}  // namespace kvlane
