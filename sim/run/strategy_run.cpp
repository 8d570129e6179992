#include "sim/run/strategy_run.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/kv/payload.h"

namespace kvlane {
namespace {

bool attends_to_all(const StrategyOptions& options) {
  return options.policy == PolicyKind::full_dense ||
         (options.policy == PolicyKind::hack && options.hack_select == HackSelect::dense);
}

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
                            Selector selector, const KvLayout& layout, LinkSpeed speed) {
  ServingSettings s;
  s.first_token = scenario.serving.first_token;
  s.prefix_location = scenario.serving.prefix_location;
  s.placement = options.kv_placement.value_or(scenario.serving.kv_placement);
  s.selector = selector;
  s.dense_attention = attends_to_all(options);
  s.free_gather = speed.infinite;
  s.kv_bits = kv_bits(options);
  s.hack_partition = static_cast<std::int32_t>(options.hack_partition);
  s.router_hop = scenario.serving.router_hop;
  s.allocate = scenario.serving.allocate;
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

StrategyOptions ideal_of(const StrategyOptions& options) {
  StrategyOptions ideal;
  ideal.name = "ideal of " + options.name;
  const bool keeps_policy =
      options.policy == PolicyKind::hack || options.policy == PolicyKind::full_dense;
  ideal.policy = keeps_policy ? options.policy : PolicyKind::full;
  ideal.payload = options.payload;
  ideal.hack_select = options.hack_select;
  ideal.hack_partition = options.hack_partition;
  ideal.kv_placement = options.kv_placement;
  ideal.selection = options.selection;
  ideal.gdr = options.gdr;
  return ideal;
}

std::string ideal_key(const StrategyOptions& o) {
  return fmt::format("{} {} {} {} {} {} {}", static_cast<int>(o.policy),
                     static_cast<int>(o.payload), static_cast<int>(o.hack_select), o.hack_partition,
                     o.kv_placement ? static_cast<int>(*o.kv_placement) : -1,
                     o.selection ? static_cast<int>(*o.selection) : -1,
                     o.gdr ? static_cast<int>(*o.gdr) : -1);
}

StrategyRun run_strategy(const Scenario& scenario, Workload& workload,
                         const std::vector<std::unique_ptr<CostModel>>& models,
                         const StrategyOptions& options, LinkSpeed speed, const TraceFor& trace) {
  const Selector selector = options.selection.value_or(scenario.selection.method);
  const bool dense = attends_to_all(options);
  const bool selective =
      options.policy == PolicyKind::smartgen || options.policy == PolicyKind::sequential;
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

  // Declared before the tasks whose frames point into them.
  std::vector<std::unique_ptr<PrefillInstance>> prefills;
  std::vector<std::unique_ptr<DecodeInstance>> decodes;
  std::vector<std::unique_ptr<DecodeEndpoint>> endpoints;
  std::unique_ptr<Router> router;
  TaskScope tasks;
  Environment env{world.loop(), world.transport(), world.compute(), metrics, tasks, {}, {}};
  env.settings = settings_of(scenario, options, selector, *workload.requests()[0].layout, speed);
  for (std::size_t i = 0; i < count; ++i) {
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
    if (selective) plan.transfer.order = &workload.order(options.order, selector, i);
    env.requests.push_back(std::move(plan));
  }

  router = std::make_unique<Router>(env, world);
  const bool colocated = options.policy == PolicyKind::colocated;
  std::vector<Router::Prefill> prefill_list;
  std::vector<Router::Decode> decode_list;
  for (const SimWorld::Instance& instance : world.instances()) {
    const bool is_prefill = scenario.instances[instance.group].role == Role::prefill;
    if (is_prefill) {
      prefills.push_back(
          std::make_unique<PrefillInstance>(env, instance.endpoint, instance.workers, *router));
      prefill_list.push_back({instance.endpoint, prefills.back().get()});
    }
    if (is_prefill != colocated) continue;
    const EndpointId endpoint = colocated ? EndpointId() : instance.endpoint;
    std::vector<DecodeInstance*> workers;
    for (const Worker& worker : instance.workers) {
      decodes.push_back(std::make_unique<DecodeInstance>(env, endpoint, worker));
      decode_list.push_back({endpoint, decodes.back().get()});
      workers.push_back(decodes.back().get());
    }
    if (!colocated) {
      endpoints.push_back(std::make_unique<DecodeEndpoint>(std::move(workers)));
      world.transport().set_handler(endpoint, endpoints.back().get());
    }
  }
  router->set_instances(std::move(prefill_list), std::move(decode_list), colocated);
  for (std::size_t i = 0; i < count; ++i) router->dispatch(RequestId(i));
  world.loop().run();
  tasks.rethrow();

  StrategyRun run;
  try {
    run.times = metrics.request_times(
        [&](EndpointId from, EndpointId to) { return world.path(from, to); },
        [&](EndpointId from, EndpointId to) { return world.latency(from, to); });
  } catch (const std::logic_error&) {
    if (scenario.link_events.empty()) throw;
    throw RunError(fmt::format(
        "{}: strategy {} cannot finish: a link of network.events stays down while requests wait",
        scenario.name, options.name));
  }
  run.lane_bytes = metrics.lane_bytes();
  run.metadata = metrics.metadata_bytes();
  run.transfer = metrics.transfer_time();
  run.on_demand_ratio = metrics.on_demand_ratio();
  run.local_after = metrics.local_after();
  run.end = metrics.end();
  run.utilisation = world.utilisation(world.loop().now());
  run.hash = metrics.hash();
  run.events = world.loop().executed();
  if (dense) {
    run.attention_mass = 1.0;
  } else {
    double mass = 0;
    for (const RequestPlan& plan : env.requests) mass += plan.demand->attention_mass();
    run.attention_mass = mass / static_cast<double>(count);
  }
  return run;
}

}  // namespace kvlane
