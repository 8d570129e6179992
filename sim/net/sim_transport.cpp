#include "sim/net/sim_transport.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "sim/base/check.h"

namespace kvlane {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;
constexpr unsigned kSlotBits = 24;
constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

enum class Stage : std::uint8_t { free, waiting, posting, requesting, flowing, arriving, ended };

struct Transfer {
  std::uint64_t id = 0;
  Stage stage = Stage::free;
  TransferStatus status = TransferStatus::ok;
  std::uint32_t next = kNone;  // behind it in the queue pair
  TransferOp op = TransferOp::write;
  Lane lane = Lane::control;
  EndpointId poster, peer;
  std::uint32_t queue = 0;
  GpuId source_gpu, destination_gpu;  // valid: GPUDirect
  RequestId request;
  bool metadata = false;
  Bytes bytes{0};
  Bytes mask{0};
  std::int64_t work_requests = 1;
  Message message;
  std::vector<BlockRun> runs;
  Callback completion;
  TimePoint posted_at{};  // the poster's CPU is done
  TimePoint begin{};
  TimerId timer;
  FlowId flow;
  Bytes wire() const { return bytes + mask; }
};

struct QueuePair {
  std::uint32_t first = kNone, last = kNone;
};

struct Endpoint {
  NodeId node;
  NicSpec nic;
  MessageHandler* handler = nullptr;
  TimePoint cpu_free{};
  // By peer and queue: a queue pair a lane for writes and sends, and one for reads.
  std::vector<std::vector<std::array<QueuePair, 2 * kLaneCount>>> pairs;
};

struct GpuLinks {
  LinkId host_to_device, device_to_host;
};

}  // namespace

struct SimTransport::State {
  State(EventLoop& event_loop, FluidNetwork& fluid, Topology& topo, TraceSink* sink)
      : loop(event_loop), network(fluid), topology(topo), trace(sink) {}

  EventLoop& loop;
  FluidNetwork& network;
  Topology& topology;
  TraceSink* trace;
  std::deque<Endpoint> endpoints;
  std::vector<GpuLinks> gpus;
  std::map<LinkId, Bandwidth> raw_rates;  // of cables, before any NIC's efficiency
  std::deque<Transfer> transfers;         // stays in place while a handler posts
  std::vector<std::uint32_t> free_transfers;
  std::vector<LinkId> path;
  std::uint64_t sequence = 0;

  static std::uint32_t slot_of(const Transfer& t) {
    return static_cast<std::uint32_t>(t.id & kSlotMask);
  }
  Endpoint& endpoint(EndpointId id) {
    KVLANE_CHECK(id.index() < endpoints.size(), "no endpoint {}", id.value());
    return endpoints[id.index()];
  }
  QueuePair& pair_of(const Transfer& t) {
    auto& pairs = endpoints[t.poster.index()].pairs;
    if (pairs.size() <= t.peer.index()) pairs.resize(endpoints.size());
    const std::size_t reads = t.op == TransferOp::read ? kLaneCount : 0;
    auto& queues = pairs[t.peer.index()];
    if (queues.size() <= t.queue) queues.resize(t.queue + 1);
    return queues[t.queue][index(t.lane) + reads];
  }
  Duration latency(EndpointId a, EndpointId b) {
    const Endpoint& from = endpoint(a);
    const Endpoint& to = endpoint(b);
    if (from.node == to.node) return Duration::zero();
    return topology.route(from.node, to.node).latency + (from.nic.latency + to.nic.latency) / 2;
  }
  Callback step(const Transfer& t) {
    return {[](void* self, std::uint64_t slot) {
              State& s = *static_cast<State*>(self);
              s.advance(s.transfers[slot]);
            },
            this, slot_of(t)};
  }

  // The next stage of a transfer; called from the loop, or by post() for the first of its pair.
  void advance(Transfer& t) {
    switch (t.stage) {
      case Stage::waiting:
        if (t.posted_at > loop.now()) {
          t.stage = Stage::posting;
          t.timer = loop.schedule_at(t.posted_at, step(t));
          return;
        }
        [[fallthrough]];
      case Stage::posting:
        if (t.op == TransferOp::read) {
          const Duration request = latency(t.poster, t.peer);
          if (request > Duration::zero()) {
            t.stage = Stage::requesting;
            t.timer = loop.schedule_after(request, step(t));
            return;
          }
        }
        [[fallthrough]];
      case Stage::requesting:
        start_flow(t);
        return;
      case Stage::flowing:
        t.stage = Stage::arriving;
        t.flow = {};
        t.timer = loop.schedule_after(latency(t.poster, t.peer), step(t));
        leave_pair(t);
        return;
      case Stage::arriving:
        record(t, t.wire());
        arrive(t);
        return;
      case Stage::ended:  // cancelled
        finish(t);
        return;
      case Stage::free:
        break;
    }
    KVLANE_CHECK(false, "a transfer that does not exist goes on");
  }

  void start_flow(Transfer& t) {
    t.stage = Stage::flowing;
    t.begin = loop.now();
    const bool read = t.op == TransferOp::read;
    const EndpointId source = read ? t.peer : t.poster;
    const EndpointId destination = read ? t.poster : t.peer;
    path.clear();
    if (t.source_gpu.is_valid()) path.push_back(gpus[t.source_gpu.index()].device_to_host);
    const Route& route =
        topology.route(endpoints[source.index()].node, endpoints[destination.index()].node);
    path.insert(path.end(), route.links.begin(), route.links.end());
    if (t.destination_gpu.is_valid()) {
      path.push_back(gpus[t.destination_gpu.index()].host_to_device);
    }
    const double message_rate = endpoints[t.poster.index()].nic.message_rate;
    Bandwidth cap = Bandwidth::unlimited();
    if (message_rate > 0) {
      const double seconds = static_cast<double>(t.work_requests) / message_rate;
      if (t.wire().count() == 0) {  // nothing flows, but the messages take their time
        t.timer = loop.schedule_after(seconds_to_duration(seconds), step(t));
        return;
      }
      const double bits = static_cast<double>(t.wire().count()) * 8 / seconds;
      if (bits < 9e18) {
        cap = Bandwidth::bits_per_sec(std::max<std::int64_t>(1, static_cast<std::int64_t>(bits)));
      }
      // A cap that the path can never reach would only keep the flow out of its bundle. The raw
      // rate counts: a degraded cable may be repaired meanwhile.
      for (const LinkId link : path) {
        const auto raw = raw_rates.find(link);
        if (raw != raw_rates.end() && raw->second <= cap) cap = Bandwidth::unlimited();
      }
    }
    t.flow = network.start({path, t.wire(), t.lane, cap}, step(t));
  }

  // Lets the next transfer of the queue pair go.
  void leave_pair(Transfer& t) {
    QueuePair& pair = pair_of(t);
    KVLANE_CHECK(pair.first == slot_of(t), "transfer {} left out of order", t.id);
    pair.first = t.next;
    if (pair.first == kNone) {
      pair.last = kNone;
    } else {
      advance(transfers[pair.first]);
    }
  }

  void record(const Transfer& t, Bytes bytes) {
    if (trace == nullptr) return;
    const bool read = t.op == TransferOp::read;
    TraceRecord r;
    r.kind = TraceKind::transfer;
    r.lane = t.lane;
    r.detail = static_cast<std::uint8_t>(t.op);
    r.iteration = t.message.iteration;
    r.begin = t.begin;
    r.end = loop.now();
    r.request = t.request;
    r.metadata = t.metadata;
    r.layer = t.message.layer;
    r.source = read ? t.peer : t.poster;
    r.destination = read ? t.poster : t.peer;
    r.bytes = std::min(bytes, t.bytes);
    r.mask = bytes - r.bytes;
    r.value = t.work_requests;
    r.flow = t.id;
    trace->record(r);
  }

  void arrive(Transfer& t) {
    t.stage = Stage::ended;
    if (t.op == TransferOp::write_with_imm || t.op == TransferOp::send) {
      if (MessageHandler* handler = endpoints[t.peer.index()].handler) {
        Message message = t.message;
        message.runs = t.runs;
        handler->on_message(t.poster, message);
      }
    }
    finish(t);
  }

  void finish(Transfer& t) {
    const Callback completion = t.completion;
    const auto status = static_cast<std::uint64_t>(t.status);
    free_transfers.push_back(slot_of(t));
    t.id = 0;
    t.stage = Stage::free;
    if (completion) completion.function(completion.context, status);
  }
};

SimTransport::SimTransport(EventLoop& loop, FluidNetwork& network, Topology& topology,
                           TraceSink* trace)
    : state_(std::make_unique<State>(loop, network, topology, trace)) {}
SimTransport::~SimTransport() = default;

EndpointId SimTransport::add_endpoint(NodeId node, const NicSpec& nic) {
  State& s = *state_;
  KVLANE_CHECK(nic.efficiency > 0 && nic.efficiency <= 1, "efficiency {} of {}", nic.efficiency,
               nic.name);
  KVLANE_CHECK(nic.max_send_sge > 0 && nic.max_recv_sge > 0 && nic.max_read_sge > 0,
               "SGE limits of {} must be positive", nic.name);
  for (const LinkId link : s.topology.links_at(node)) {
    const Bandwidth raw = s.raw_rates.emplace(link, s.network.capacity(link)).first->second;
    const Bandwidth usable = std::min(raw, nic.rate).scaled(nic.efficiency);
    s.network.set_capacity(link, std::min(s.network.capacity(link), usable));
    if (!nic.lane_priority) s.network.set_lane_priority(link, false);
  }
  Endpoint& endpoint = s.endpoints.emplace_back();
  endpoint.node = node;
  endpoint.nic = nic;
  return EndpointId(s.endpoints.size() - 1);
}

void SimTransport::attach_gpu(GpuId gpu, LinkId host_to_device, LinkId device_to_host) {
  std::vector<GpuLinks>& gpus = state_->gpus;
  if (gpus.size() <= gpu.index()) gpus.resize(gpu.index() + 1);
  gpus[gpu.index()] = {host_to_device, device_to_host};
}

TransferId SimTransport::post(const TransferSpec& spec, Callback completion) {
  State& s = *state_;
  Endpoint& poster = s.endpoint(spec.poster);
  const Endpoint& peer = s.endpoint(spec.peer);
  KVLANE_CHECK(spec.bytes.count() >= 0, "a transfer of {} bytes", spec.bytes.count());
  const auto gpu_of = [&](MemoryKind memory, GpuId gpu, const Endpoint& where) {
    if (memory == MemoryKind::host) return GpuId();
    KVLANE_CHECK(where.nic.gpu_direct, "{} cannot reach GPU memory; stage through the host",
                 where.nic.name);
    KVLANE_CHECK(gpu.index() < s.gpus.size() && s.gpus[gpu.index()].host_to_device.is_valid(),
                 "GPU {} has no PCIe links", gpu.value());
    return gpu;
  };
  const GpuId local = gpu_of(spec.local_memory, spec.local_gpu, poster);
  const GpuId remote = gpu_of(spec.remote_memory, spec.remote_gpu, peer);

  auto slot = static_cast<std::uint32_t>(s.transfers.size());
  if (s.free_transfers.empty()) {
    KVLANE_CHECK(slot <= kSlotMask, "too many transfers: {}", slot);
    s.transfers.emplace_back();
  } else {
    slot = s.free_transfers.back();
    s.free_transfers.pop_back();
  }
  Transfer& t = s.transfers[slot];
  t.id = (++s.sequence << kSlotBits) | slot;
  t.stage = Stage::waiting;
  t.status = TransferStatus::ok;
  t.next = kNone;
  t.op = spec.op;
  t.lane = spec.lane;
  t.poster = spec.poster;
  t.peer = spec.peer;
  t.queue = spec.queue;
  t.source_gpu = spec.op == TransferOp::read ? remote : local;
  t.destination_gpu = spec.op == TransferOp::read ? local : remote;
  t.request = spec.request;
  t.metadata = spec.metadata;
  t.bytes = spec.bytes;
  t.mask = spec.mask;
  t.work_requests = work_requests(spec);
  t.message = spec.message;
  t.message.runs = {};
  t.runs.assign(spec.message.runs.begin(), spec.message.runs.end());
  t.completion = completion;
  poster.cpu_free = later(std::max(poster.cpu_free, s.loop.now()),
                          poster.nic.per_doorbell + t.work_requests * poster.nic.per_message);
  t.posted_at = poster.cpu_free;

  const std::uint64_t id = t.id;
  QueuePair& pair = s.pair_of(t);
  if (pair.last == kNone) {
    pair.first = pair.last = slot;
    s.advance(t);
  } else {
    s.transfers[pair.last].next = slot;
    pair.last = slot;
  }
  return {id};
}

bool SimTransport::cancel(TransferId transfer) {
  State& s = *state_;
  const std::uint64_t slot = transfer.value & kSlotMask;
  if (transfer.value == 0 || slot >= s.transfers.size()) return false;
  Transfer& t = s.transfers[slot];
  if (t.id != transfer.value || t.stage == Stage::arriving || t.stage == Stage::ended) return false;
  const bool heads = t.stage != Stage::waiting;
  if (t.stage == Stage::flowing && t.flow) {
    if (!s.network.active(t.flow)) return false;  // its last byte has just left
    s.record(t, s.network.cancel(t.flow));
  } else if (heads) {
    s.loop.cancel(t.timer);
  }
  t.stage = Stage::ended;
  t.status = TransferStatus::cancelled;
  s.loop.schedule_at(s.loop.now(), s.step(t));
  if (heads) {
    s.leave_pair(t);
    return true;
  }
  QueuePair& pair = s.pair_of(t);  // waiting: never the first
  std::uint32_t before = pair.first;
  while (s.transfers[before].next != slot) before = s.transfers[before].next;
  s.transfers[before].next = t.next;
  if (pair.last == slot) pair.last = before;
  return true;
}

void SimTransport::set_handler(EndpointId endpoint, MessageHandler* handler) {
  state_->endpoint(endpoint).handler = handler;
}

TransportLimits SimTransport::limits(EndpointId endpoint) const {
  const NicSpec& nic = state_->endpoint(endpoint).nic;
  return {nic.max_send_sge, nic.max_recv_sge, nic.max_read_sge,
          nic.max_inline,   nic.gpu_direct,   nic.lane_priority};
}

Bandwidth SimTransport::path_rate(EndpointId from, EndpointId to) const {
  State& s = *state_;
  Bandwidth rate = Bandwidth::unlimited();
  for (const LinkId link : s.topology.route(s.endpoint(from).node, s.endpoint(to).node).links) {
    rate = std::min(rate, s.network.capacity(link));
  }
  return rate;
}

Duration SimTransport::path_latency(EndpointId from, EndpointId to) const {
  return state_->latency(from, to);
}

std::int64_t SimTransport::work_requests(const TransferSpec& spec) const {
  const NicSpec& poster = state_->endpoint(spec.poster).nic;
  const NicSpec& peer = state_->endpoint(spec.peer).nic;
  const std::int64_t segments = std::max<std::int64_t>(1, spec.segments);
  const std::int64_t targets = std::max<std::int64_t>(1, spec.targets);
  switch (spec.op) {
    case TransferOp::write:
    case TransferOp::write_with_imm:
      return std::max(ceil_div(segments, poster.max_send_sge), targets) +
             (spec.mask.count() > 0 ? 1 : 0);
    case TransferOp::send:
      return std::max(ceil_div(segments, poster.max_send_sge),
                      ceil_div(targets, peer.max_recv_sge));
    case TransferOp::read:
      return std::max(ceil_div(segments, poster.max_read_sge), targets);
  }
  KVLANE_CHECK(false, "transfer op {}", static_cast<int>(spec.op));
  return 0;
}

}  // namespace kvlane
