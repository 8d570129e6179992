#include "sim/gpu/sim_compute.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/gpu/turns.h"
#include "sim/gpu/work_cache.h"

namespace kvlane {
namespace {

// One copy engine or gathering CPU: jobs in order, each a fixed delay and then a flow.
struct Engine {
  struct Job {
    Duration delay{0};
    Bytes flow_bytes{0};
    Callback completion;
    TraceRecord record;
  };

  EventLoop* loop = nullptr;
  FluidNetwork* network = nullptr;
  TraceSink* trace = nullptr;
  std::array<LinkId, 2> links{};
  std::size_t link_count = 0;
  Bandwidth cap = Bandwidth::unlimited();
  std::deque<Job> jobs;     // the front one runs
  Turns* beside = nullptr;  // kernels on the same processors

  void post(const Job& job) {
    jobs.push_back(job);
    if (jobs.size() == 1) begin();
  }

  void begin() {
    Job& job = jobs.front();
    job.record.begin = loop->now();
    if (job.delay == Duration::zero()) return flow();
    loop->schedule_after(
        job.delay,
        {[](void* self, std::uint64_t) { static_cast<Engine*>(self)->flow(); }, this, 0});
  }

  void flow() {
    FlowSpec spec;
    spec.path = {links.data(), link_count};
    spec.bytes = jobs.front().flow_bytes;
    spec.lane = Lane::on_demand;
    spec.cap = cap;
    network->start(spec,
                   {[](void* self, std::uint64_t) { static_cast<Engine*>(self)->end(); }, this, 0});
  }

  void end() {
    Job done = jobs.front();
    jobs.pop_front();
    if (beside != nullptr) beside->hold_up(loop->now() - done.record.begin);
    if (trace != nullptr) {
      done.record.end = loop->now();
      trace->record(done.record);
    }
    if (!jobs.empty()) begin();
    if (done.completion) done.completion();
  }
};

constexpr std::size_t kStreams = 2;

struct StreamState {
  TimePoint free_at{};
  Duration posted{0};  // work posted so far
};

struct Gpu {
  const CostModel* model = nullptr;
  std::size_t cache = 0;
  std::array<StreamState, kStreams> streams{};
  std::unique_ptr<Turns> turns;  // instead of streams that are not concurrent
  Engine to_device;
  Engine to_host;
  Engine gather;
};

}  // namespace

struct SimCompute::State {
  EventLoop& loop;
  FluidNetwork& network;
  TraceSink* trace;
  std::deque<Gpu> gpus{};  // addresses stay: engines are contexts of callbacks
  std::vector<std::pair<const CostModel*, std::unique_ptr<WorkCache>>> caches{};

  Gpu& at(GpuId gpu) {
    KVLANE_CHECK(gpu.is_valid() && gpu.index() < gpus.size(), "no GPU {}", gpu.value());
    return gpus[gpu.index()];
  }
  Duration duration(const Gpu& gpu, const Work& work) {
    return caches[gpu.cache].second->duration(*gpu.model, work);
  }
};

SimCompute::SimCompute(EventLoop& loop, FluidNetwork& network, TraceSink* trace)
    : state_(new State{loop, network, trace}) {}

SimCompute::~SimCompute() = default;

GpuId SimCompute::add_gpu(const CostModel& model, LinkId host_to_device, LinkId device_to_host,
                          LinkId host_memory) {
  State& s = *state_;
  const GpuId id(s.gpus.size());
  Gpu& gpu = s.gpus.emplace_back();
  gpu.model = &model;
  // GPUs of the same model share the durations that are known.
  const auto known = std::find_if(s.caches.begin(), s.caches.end(),
                                  [&](const auto& entry) { return entry.first == &model; });
  gpu.cache = static_cast<std::size_t>(known - s.caches.begin());
  if (known == s.caches.end()) s.caches.emplace_back(&model, std::make_unique<WorkCache>(model));
  const auto engine = [&](std::array<LinkId, 2> links, std::size_t count, Bandwidth cap) {
    return Engine{&s.loop, &s.network, s.trace, links, count, cap, {}};
  };
  if (!model.gpu().concurrent_streams) gpu.turns = std::make_unique<Turns>(s.loop, s.trace);
  gpu.to_device = engine({host_to_device, host_memory}, 2, Bandwidth::unlimited());
  gpu.to_host = engine({device_to_host, host_memory}, 2, Bandwidth::unlimited());
  const double gather = model.gpu().host_gather_bandwidth;
  gpu.gather =
      engine({host_memory, LinkId()}, 1,
             gather > 0 ? Bandwidth::gbyte_per_sec(2 * gather / 1e9) : Bandwidth::unlimited());
  for (Engine* one : {&gpu.to_device, &gpu.to_host, &gpu.gather}) one->beside = gpu.turns.get();
  return id;
}

void SimCompute::post(GpuId id, Stream stream, const Work& work, Callback completion) {
  State& s = *state_;
  Gpu& gpu = s.at(id);
  TraceRecord record;
  record.kind = TraceKind::compute;
  record.detail = static_cast<std::uint8_t>(work.kind);
  record.iteration = work.iteration;
  record.request = work.request;
  record.layer = work.layer;
  record.gpu = id;
  record.value = static_cast<std::int64_t>(stream);
  if (work.kind == WorkKind::gather_host) {
    record.bytes = work.bytes;
    gpu.model->usage().gathers = true;
    gpu.gather.post({Duration::zero(), work.bytes * 2, completion, record});
    return;
  }
  const Duration length = s.duration(gpu, work);
  if (gpu.turns) return gpu.turns->post(record, length, completion);
  StreamState& queue = gpu.streams[static_cast<std::size_t>(stream)];
  record.begin = std::max(queue.free_at, s.loop.now());
  record.end = later(record.begin, length);
  queue.free_at = record.end;
  queue.posted += length;
  if (s.trace != nullptr) s.trace->record(record);
  if (completion) s.loop.schedule_at(record.end, completion);
}

void SimCompute::copy(const CopySpec& copy, Callback completion) {
  State& s = *state_;
  Gpu& gpu = s.at(copy.gpu);
  KVLANE_CHECK(copy.bytes.count() >= 0 && copy.copies >= 0, "copy of a negative size");
  TraceRecord record;
  record.kind = TraceKind::copy;
  record.detail = static_cast<std::uint8_t>(copy.direction);
  record.iteration = copy.iteration;
  record.request = copy.request;
  record.layer = copy.layer;
  record.gpu = copy.gpu;
  record.bytes = copy.bytes;
  record.value = copy.copies;
  Engine& engine = copy.direction == CopyDirection::host_to_device ? gpu.to_device : gpu.to_host;
  engine.post({gpu.model->gpu().pcie_copy * copy.copies, copy.bytes, completion, record});
}

Duration SimCompute::estimate(GpuId id, const Work& work) const {
  Gpu& gpu = state_->at(id);
  return gpu.model->times_whole_work() ? gpu.model->expected(work) : state_->duration(gpu, work);
}

void SimCompute::hold_up(GpuId id, Duration taken) {
  if (const auto& turns = state_->at(id).turns) turns->hold_up(taken);
}

Duration SimCompute::busy(GpuId id) const {
  if (const auto& turns = state_->at(id).turns) return turns->busy();
  const StreamState& compute = state_->at(id).streams[static_cast<std::size_t>(Stream::compute)];
  // Once it has work, a stream works without a gap until free_at.
  return compute.posted - std::max(compute.free_at - state_->loop.now(), Duration::zero());
}

}  // namespace kvlane
