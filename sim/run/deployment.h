#pragma once
// The serving side of one strategy run, on the ports of any world: plans of the requests, prefill
// and decode instances, the router. The world's loop runs it.
//
//   Deployment deployment(scenario, workload, options, world, trace);
//   deployment.start();
//   world.loop().run();
//   deployment.rethrow();

#include <memory>
#include <vector>

#include "sim/run/workload.h"
#include "sim/run/world.h"
#include "sim/serving/decode_instance.h"
#include "sim/serving/environment.h"
#include "sim/serving/prefill_instance.h"
#include "sim/serving/router.h"

namespace kvlane {

struct DeploymentOptions {
  bool free_gather = false;  // the ideal: collecting rows in host memory costs nothing
  PolicyFactory policy = plain_policy;
};

class Deployment {
 public:
  // All arguments outlive it.
  Deployment(const Scenario& scenario, Workload& workload, const StrategyOptions& strategy,
             World& world, TraceSink& trace, const DeploymentOptions& options = {});

  // Every request arrives, now.
  void start();
  // The first exception of a task, after the loop has run.
  void rethrow() { tasks_.rethrow(); }
  const std::vector<RequestPlan>& requests() const { return environment_.requests; }
  // Where the router sends a request.
  EndpointId prefill_of(RequestId request) const { return router_->prefill_of(request); }
  Router& router() { return *router_; }

 private:
  void build_instances(const Scenario& scenario, World& world, bool colocated);

  // Declared before the tasks whose frames point into them.
  std::vector<std::unique_ptr<PrefillInstance>> prefills_;
  std::vector<std::unique_ptr<DecodeInstance>> decodes_;
  std::vector<std::unique_ptr<DecodeEndpoint>> endpoints_;
  std::unique_ptr<Router> router_;
  TaskScope tasks_;
  Environment environment_;
};

// The requests of a strategy, as every part of the serving side sees them.
std::vector<RequestPlan> plan_requests(const Scenario& scenario, Workload& workload,
                                       const StrategyOptions& strategy);

// True where attention reads every row (full_dense, HACK unless told otherwise).
bool attends_to_all(const StrategyOptions& options);

// Bytes on the wire of 16-bit KV of `tokens` tokens, as a share.
double wire_ratio(const StrategyOptions& options, const ModelSpec& model, std::int64_t tokens);

}  // namespace kvlane
