#include "calibrate/live/role/role.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "calibrate/live/role/run_memory.h"
#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/base/rng.h"

namespace kvlane::live {
namespace {

std::string hash_of(const Scenario& scenario) {
  std::string all;
  for (const InputFile& input : scenario.inputs) all += input.sha256;
  return fmt::format("{:016x}", fnv1a(all));
}

// A word of the handshake is a line; of a longer text its hash, too, tells whether it is alike.
std::string abridged(const std::string& text) {
  if (text.size() <= 400) return text;
  return fmt::format("{}... ({:016x})", text.substr(0, 400), fnv1a(text));
}

}  // namespace

std::vector<int> usable_processor_list() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> list;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return list;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) list.push_back(i);
  }
  return list;
}

// A short slice: the loop's thread goes before a kernel that runs on its processor as soon as
// something is ready, and not at the end of that kernel's slice (3 ms). Linux 6.12; others ignore
// it.
void wake_soon() {
  struct {
    std::uint32_t size = 48, policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;
  } wanted;
  ::syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

void pin_to(const std::vector<int>& processors) {
  wake_soon();
  // A timer may be 50 us late otherwise, which is longer than a message takes.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
  }
}

Duration spin_of(ComputeKind compute) {
  return compute == ComputeKind::cpu ? Duration::zero() : std::chrono::microseconds(20);
}

Places places_of(const Scenario& scenario) {
  Places places;
  std::uint32_t endpoint = 0;
  std::int64_t decodes = 0;
  for (const InstanceGroup& group : scenario.instances) {
    for (const std::string& name : instance_names(group)) {
      const EndpointId id(endpoint++);
      places.endpoint_names.push_back(name);
      if (group.role == Role::decode) {
        places.decode = id;
        ++decodes;
      } else {
        places.prefills.push_back(id);
        places.queues = std::max(places.queues, static_cast<std::uint32_t>(group.gpus / group.tp));
      }
      places.gpus.emplace_back();
      for (std::int64_t g = 0; g < group.gpus; ++g) {
        places.gpus.back().push_back(GpuId(places.gpu_count++));
        places.gpu_names.push_back(group.gpus == 1 ? name : fmt::format("{} gpu {}", name, g));
      }
    }
  }
  if (decodes != 1) {
    throw InputError({scenario.name, 0, 0}, fmt::format("{} decode instances", decodes),
                     "a live run has one decode role; expected one decode instance");
  }
  return places;
}

Bandwidth line_between(const Scenario& scenario, const Places& places, EndpointId prefill) {
  std::uint32_t endpoint = 0;
  Bandwidth least = Bandwidth::unlimited();
  for (const InstanceGroup& group : scenario.instances) {
    for (std::size_t i = 0; i < instance_names(group).size(); ++i) {
      const EndpointId id(endpoint++);
      if (id != places.decode && id != prefill) continue;
      least = std::min(least, group.nic.rate.scaled(group.nic.efficiency));
    }
  }
  return least;
}

Config config_of(const Scenario& scenario, ComputeKind compute, const LiveOptions& options) {
  const ModelSpec& model = scenario.model;
  Config config;
  const auto add = [&](const char* name, std::string value) {
    config.emplace_back(name, std::move(value));
  };
  add("model", model.name);
  add("layers", fmt::format("{}", model.layers.size()));
  std::string heads;
  std::string widths;
  for (const LayerSpec& layer : model.layers) {
    const std::string h = fmt::format("{}", layer.kv_heads);
    const std::string w = fmt::format("{}", layer.head_dim);
    if (heads.rfind(h) == std::string::npos) heads += (heads.empty() ? "" : " ") + h;
    if (widths.rfind(w) == std::string::npos) widths += (widths.empty() ? "" : " ") + w;
  }
  add("kv_heads", heads);
  add("head_dim", widths);
  add("kv_element_bytes", fmt::format("{}", model.kv_element_bytes));
  add("layout", "layer, block, token, kv head, K then V");
  add("blocks_per_layer", fmt::format("{}", scenario.serving.blocks));
  add("memory", "host");
  std::string tp;
  for (const InstanceGroup& group : scenario.instances) {
    tp += fmt::format("{}{} {} x {} GPUs, TP {}", tp.empty() ? "" : ", ",
                      group.role == Role::prefill ? "prefill" : "decode", group.count, group.gpus,
                      group.tp);
  }
  add("instances", tp);
  std::string prompts;
  for (const Prompt& prompt : scenario.prompts) {
    prompts += fmt::format("{}{} x {}", prompts.empty() ? "" : ", ", prompt.count, prompt.tokens);
  }
  add("prompts", prompts);
  add("output_tokens", fmt::format("{}", scenario.output_tokens));
  std::string strategies;
  for (const StrategyOptions& strategy : scenario.strategies) {
    strategies += (strategies.empty() ? "" : ", ") + strategy.name;
  }
  add("strategies", abridged(strategies));
  add("seed", fmt::format("{}", scenario.seed));
  add("compute", to_string(compute));
  add("verify", options.verify ? "yes" : "no");
  add("checksum", options.checksum ? "yes" : "no");
  add("kvlane", options.version);
  add("--set", options.changes.empty()
                   ? "none"
                   : abridged(fmt::format("{}", fmt::join(options.changes, ", "))));
  add("scenario files (hash)", hash_of(scenario));
  return config;
}

struct RoleEnd::Run {
  Run(RoleEnd& end, const StrategyOptions& strategy, const RunNumber& run_number)
      : number(run_number),
        loop(end.loop),
        world(end.scenario, end.models, loop, *end.transport, *end.compute, end.here),
        deployment(end.scenario, end.workload(run_number.seed), strategy, world, sink,
                   end.deployment_options),
        memory(deployment, *end.regions, end.here, end.places.decode, run_number.number,
               end.options.verify, end.breathe) {}

  struct Sink final : TraceSink {
    RecordList list;
    TraceSink* next = nullptr;
    std::size_t seen = 0;  // records at the last look
    void record(const TraceRecord& r) override {
      list.record(r);
      if (next != nullptr) next->record(r);
    }
  };
  RunNumber number;
  Sink sink;
  RunLoop loop;
  RoleWorld world;
  Deployment deployment;
  RunMemory memory;
};

RoleEnd::RoleEnd(WallLoop& l, const Scenario& s, const LiveOptions& o, ComputeKind kind,
                 EndpointId self)
    : loop(l),
      scenario(s),
      options(o),
      places(places_of(s)),
      here(self),
      models(make_cost_models(s)) {
  peer_names = places.endpoint_names;
  std::int64_t bytes = most_region_bytes(scenario, workload(0));
  check_memory(bytes, options.ends_here);
  pool = std::make_unique<Pool>(static_cast<std::size_t>(bytes));
  regions = std::make_unique<RegionTable>(*pool);
  transport = std::make_unique<LiveTransport>(loop, here, *regions,
                                              LiveTransport::Options{options.timeout});
  transport->on_failure([this](EndpointId peer, const std::string& reason, RequestId request) {
    if (request.is_valid()) push_failed(request, reason);
    fail(fmt::format("{}: {}", peer_names[peer.index()], reason));
  });
  compute = std::make_unique<RoleCompute>(loop, scenario, models, places.gpus[here.index()], kind,
                                          options);
}

RoleEnd::~RoleEnd() {
  if (transport) transport->close();
}

Workload& RoleEnd::workload(std::uint32_t seed) {
  auto& made = workloads_[seed];
  if (!made) made = std::make_unique<Workload>(scenario, scenario.seed + seed);
  return *made;
}

Deployment& RoleEnd::deployment() { return run_->deployment; }
const std::vector<RequestPlan>& RoleEnd::plans() const { return run_->deployment.requests(); }

std::vector<RegionPlace> RoleEnd::prepare(const RunNumber& number) {
  KVLANE_CHECK(!run_ && number.strategy < scenario.strategies.size(), "strategy {} of {}",
               number.strategy, scenario.strategies.size());
  run_ = std::make_unique<Run>(*this, scenario.strategies[number.strategy], number);
  return run_->memory.expose();
}

void RoleEnd::start(TimePoint at, TraceSink* next) {
  run_->loop.start_at(at);
  run_->sink.next = next;
  compute->begin_run(run_->loop, run_->sink);
  transport->begin_run(&run_->sink, &run_->memory.inspector(), at);
  // Serving objects of this process have set their handler on the transport when they were made.
  run_->loop.schedule_at(
      TimePoint{}, {[](void* self, std::uint64_t) { static_cast<Run*>(self)->deployment.start(); },
                    run_.get(), 0});
  // The decode role waits for the others; a prefill role may have nothing to do for long.
  if (here == places.decode) watch_activity();
}

// What happens leaves records. A run in which nothing does, and nothing is in flight that the
// transport would watch, waits for something that will not come: a message that was lost, say.
void RoleEnd::watch_activity() {
  const std::size_t records = run_->sink.list.records.size();
  const bool idle = compute->in_flight() == 0 && transport->in_flight() == 0;
  if (records == run_->sink.seen && idle && run_->loop.now() > TimePoint(options.silence)) {
    return fail(fmt::format("nothing has happened for {:.1f} s and nothing is in flight here",
                            to_seconds(options.silence)));
  }
  run_->sink.seen = records;
  run_->loop.schedule_at(
      later(std::max(run_->loop.now(), TimePoint{}), options.silence),
      {[](void* self, std::uint64_t) { static_cast<RoleEnd*>(self)->watch_activity(); }, this, 0});
}

void RoleEnd::run() {
  loop.hold();
  loop.run();
  loop.release();
  check();
  run_->deployment.rethrow();
}

void RoleEnd::drain() {
  const TimePoint limit = later(loop.clock(), options.timeout * 3);
  while (transport->in_flight() > 0 || compute->in_flight() > 0) {
    check();
    if (loop.clock() > limit) {
      throw PeerError(fmt::format(
          "{} transfers and {} pieces of work still run {:.0f} s after the "
          "last token",
          transport->in_flight(), compute->in_flight(), to_seconds(options.timeout * 3)));
    }
    loop.schedule_at(later(std::max(loop.now(), loop.clock()), std::chrono::microseconds(200)),
                     {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
    loop.run();
  }
  check();
  run_->deployment.rethrow();
}

std::vector<TraceRecord> RoleEnd::finish() {
  verified_bytes += run_->memory.check();
  // Both sides have drained: what has no operation in flight is not written any more, and no
  // connection need be named as a writer. A run that ends otherwise closes its connections.
  KVLANE_CHECK(transport->in_flight() == 0, "{} transfers in flight", transport->in_flight());
  compute->end_run();
  transport->end_run();
  run_->memory.withdraw();
  std::vector<TraceRecord> records = std::move(run_->sink.list.records);
  run_.reset();
  return records;
}

void RoleEnd::fail(const std::string& reason) {
  if (failure_.empty()) failure_ = reason;
  loop.stop();
}

void RoleEnd::check() {
  if (!failure_.empty()) throw PeerError(failure_);
}

}  // namespace kvlane::live
