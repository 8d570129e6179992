#include "sim/run/deployment.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/kv/payload.h"

namespace kvlane {
namespace {

std::int32_t kv_bits(const StrategyOptions& options) {
  if (options.policy == PolicyKind::hack || options.payload == Payload::hack2) return 2;
  if (options.payload == Payload::fp8) return 8;
  return options.payload == Payload::int4 ? 4 : 16;
}

double selector_row_bytes(const Scenario& scenario, Selector selector, const LayerLayout& layer) {
  return selector == Selector::hata
             ? kHataRowBytes
             : infinigen_row_bytes(layer.key_width, scenario.selection.partial_ratio);
}

ServingSettings settings_of(const Scenario& scenario, const StrategyOptions& options,
                            Selector selector, const KvLayout& layout, bool free_gather) {
  ServingSettings s;
  s.first_token = scenario.serving.first_token;
  s.prefix_location = scenario.serving.prefix_location;
  s.placement = options.kv_placement.value_or(scenario.serving.kv_placement);
  s.selector = selector;
  s.free_gather = free_gather;
  s.kv_bits = kv_bits(options);
  s.hack_partition = static_cast<std::int32_t>(options.hack_partition);
  s.router_hop = scenario.serving.router_hop;
  s.allocate = scenario.serving.allocate;
  s.gather_chunks = scenario.serving.gather_chunks;
  s.idle_poll = scenario.serving.idle_poll;
  s.gpu_direct = options.gdr.value_or(true);
  int smallest = 1 << 30;
  int largest = 1;
  for (const InstanceGroup& group : scenario.instances) {
    s.gpu_direct = s.gpu_direct && group.nic.gpu_direct;
    smallest = std::min(smallest, group.tp);
    largest = std::max(largest, group.tp);
  }
  // Sides that split the heads alike move a block in one piece a rank; else the finer side cuts it.
  if (smallest != largest) s.shards = largest;
  for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
    if (layout.layer(l).dense) continue;
    s.selector_bytes =
        static_cast<std::int32_t>(selector_row_bytes(scenario, selector, layout.layer(l)) + 0.5);
    break;
  }
  return s;
}

}  // namespace

bool attends_to_all(const StrategyOptions& options) {
  return options.policy == PolicyKind::full_dense ||
         (options.policy == PolicyKind::hack && options.hack_select == HackSelect::dense);
}

double wire_ratio(const StrategyOptions& options, const ModelSpec& model, std::int64_t tokens) {
  if (options.policy == PolicyKind::hack || options.payload == Payload::hack2) {
    return hack_share(tokens, options.hack_partition);
  }
  switch (options.payload) {
    case Payload::fp8:
      return payload_bytes_per_element(8) / model.kv_element_bytes;
    case Payload::int4:
      return payload_bytes_per_element(4) / model.kv_element_bytes;
    case Payload::bf16:
    case Payload::hack2:
      break;
  }
  return 1;
}

Deployment::Deployment(const Scenario& scenario, Workload& workload,
                       const StrategyOptions& strategy, World& world, TraceSink& trace,
                       const DeploymentOptions& options)
    : environment_{world.loop(), world.transport(), world.compute(), trace, tasks_, {},
                   {},           options.policy} {
  const Selector selector = strategy.selection.value_or(scenario.selection.method);
  environment_.settings = settings_of(scenario, strategy, selector, *workload.requests()[0].layout,
                                      options.free_gather);
  environment_.moves_bytes = world.moves_bytes();
  for (const World::Instance& instance : world.instances()) {
    // What the scenario's NIC could do the transport at hand may not.
    if (instance.here && !world.transport().limits(instance.endpoint).gpu_direct) {
      environment_.settings.gpu_direct = false;
    }
  }
  environment_.requests = plan_requests(scenario, workload, strategy);
  router_ = std::make_unique<Router>(environment_, world);
  build_instances(scenario, world, strategy.policy == PolicyKind::colocated);
  for (const RequestPlan& plan : environment_.requests) router_->place(plan.id);
}

std::vector<RequestPlan> plan_requests(const Scenario& scenario, Workload& workload,
                                       const StrategyOptions& options) {
  std::vector<RequestPlan> plans;
  const Selector selector = options.selection.value_or(scenario.selection.method);
  const bool dense = attends_to_all(options);
  const bool selective =
      options.policy == PolicyKind::smartgen || options.policy == PolicyKind::sequential;
  for (std::size_t i = 0; i < workload.requests().size(); ++i) {
    const Workload::Request& request = workload.requests()[i];
    const KvLayout& layout = *request.layout;
    RequestPlan plan;
    plan.id = RequestId(i);
    plan.prompt_tokens = request.prompt_tokens;
    plan.output_tokens = scenario.output_tokens;
    plan.region = RegionId(i);
    plan.demand = dense ? nullptr : &workload.demand(selector, i);
    plan.transfer.layout = &layout;
    plan.transfer.options = &options;
    plan.transfer.wire_ratio = wire_ratio(options, scenario.model, request.prompt_tokens);
    plan.transfer.cached_tokens = request.cached_tokens;
    for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
      const bool selects = plan.demand != nullptr && plan.demand->selects(l);
      plan.transfer.metadata.push_back(
          selects ? metadata_bytes(layout.layer(l),
                                   selector_row_bytes(scenario, selector, layout.layer(l)))
                  : Bytes(0));
      if (selects && options.auto_switch) {
        plan.transfer.first_step_rows += plan.transfer.wire_bytes(
            Bytes(plan.demand->selected(l, 0) * layout.layer(l).row_bytes));
      }
    }
    std::int64_t end = plan.transfer.wire_bytes(layout.total_bytes()).count();
    for (const Bytes bytes : plan.transfer.metadata) {
      plan.metadata_offset.push_back(end);
      end += bytes.count();
    }
    plan.region_bytes = end;
    if (selective) plan.transfer.order = &workload.order(options.order, selector, i);
    plans.push_back(std::move(plan));
  }
  return plans;
}

void Deployment::build_instances(const Scenario& scenario, World& world, bool colocated) {
  std::vector<Router::Prefill> prefill_list;
  std::vector<Router::Decode> decode_list;
  for (const World::Instance& instance : world.instances()) {
    const bool is_prefill = scenario.instances[instance.group].role == Role::prefill;
    if (is_prefill) {
      if (instance.here) {
        prefills_.push_back(std::make_unique<PrefillInstance>(environment_, instance.endpoint,
                                                              instance.workers, *router_));
      }
      prefill_list.push_back({instance.endpoint, instance.workers.size(),
                              instance.here ? prefills_.back().get() : nullptr});
    }
    if (is_prefill != colocated) continue;
    const EndpointId endpoint = colocated ? EndpointId() : instance.endpoint;
    std::vector<DecodeInstance*> workers;
    for (const Worker& worker : instance.workers) {
      decode_list.push_back({endpoint, worker.gpus.front(), nullptr});
      if (!instance.here) continue;
      decodes_.push_back(std::make_unique<DecodeInstance>(environment_, endpoint, worker));
      decode_list.back().instance = decodes_.back().get();
      workers.push_back(decodes_.back().get());
    }
    if (!colocated && instance.here) {
      endpoints_.push_back(std::make_unique<DecodeEndpoint>(std::move(workers)));
      world.transport().set_handler(endpoint, endpoints_.back().get());
    }
  }
  router_->set_instances(std::move(prefill_list), std::move(decode_list), colocated);
}

void Deployment::start() {
  for (const RequestPlan& plan : environment_.requests) router_->dispatch(plan.id);
}

}  // namespace kvlane
