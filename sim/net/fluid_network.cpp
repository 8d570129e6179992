#include "sim/net/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/base/check.h"
#include "sim/net/fair_share.h"
#include "sim/net/flow_time.h"

namespace kvlane {
namespace {

using Index = FairShare::Index;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr unsigned kSlotBits = 24;  // 16.7 million flows at once; 2^40 flows a run
constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;
constexpr std::uint32_t kNone = 0xffffffffU;
// `served` of a bundle is set back to zero above this many bits, so that rounding stays below a
// thousandth of a picosecond at any rate above 1 Gbit/s.
constexpr double kRebaseBits = 0x1.0p33;

double to_bits_per_sec(Bandwidth b) {
  return b.is_unlimited() ? kInfinite : static_cast<double>(b.bits_per_sec());
}

struct HeapEntry {
  double finish;  // value of the bundle's `served` at which the flow ends
  std::uint32_t slot;
};

// What the solver does not need to know of a bundle: how far its flows have come.
struct Queue {
  double served = 0;       // bits that a flow present since the last rebase has passed
  double rate = 0;         // at which `served` grows since `updated`
  TimePoint updated{};     //
  TimePoint due = kNever;  // of the first flow
  std::vector<HeapEntry> heap;
  std::int64_t bytes_done = 0;  // of ended flows, since the bundle was made
  std::uint64_t hash = 0;
  std::uint32_t place = kNone;  // in the list of active bundles
  bool capped = false;
  bool changed = false;  // flows came or went since `due` was set
};

struct Flow {
  std::uint64_t id = 0;  // 0: free
  std::uint32_t bundle = 0;
  std::uint32_t place = 0;  // in the bundle's heap, kNone: ended, completion not yet called
  double start = 0;         // `served` when it started
  std::int64_t bytes = 0;
  Callback completion;
};

struct LinkState {
  std::string name;
  Bandwidth capacity;
  TimePoint updated{};
  Duration busy{0};
  double share_time = 0;
  double load = 0;  // of the time since `updated`
  bool moving = false;
  std::array<std::int64_t, kLaneCount> bytes{};  // of bundles that were reused
};

}  // namespace

struct FluidNetwork::State {
  explicit State(EventLoop& event_loop) : loop(event_loop) {}

  EventLoop& loop;
  FairShare share;
  std::vector<LinkState> links;
  std::vector<Queue> queues;  // by bundle
  std::vector<Flow> flows;
  std::vector<std::uint32_t> free_flows, free_bundles;
  std::vector<Index> active;   // bundles with flows
  std::vector<Index> buckets;  // hash table of the bundles without a cap
  std::size_t hashed = 0;
  std::vector<std::uint64_t> ended;  // flows whose completion is to be called
  std::size_t active_flows = 0;
  std::uint64_t sequence = 0;
  TimerId timer;
  TimePoint timer_at = kNever;
  bool pumping = false;

  Flow* find(FlowId id) {
    const std::uint64_t slot = id.value & kSlotMask;
    if (id.value == 0 || slot >= flows.size() || flows[slot].id != id.value) return nullptr;
    return &flows[slot];
  }

  // -- bundles
  std::uint64_t hash(std::span<const LinkId> path, Lane lane) const {
    std::uint64_t h = 0x9e3779b97f4a7c15ULL + index(lane);
    for (const LinkId link : path) h = (h ^ link.value()) * 0xff51afd7ed558ccdULL, h ^= h >> 32U;
    return h;
  }
  bool same(Index b, std::span<const LinkId> path, Lane lane) const {
    const FairShare::Bundle& bundle = share.bundle(b);
    return bundle.lane == lane &&
           std::equal(path.begin(), path.end(), bundle.path.begin(), bundle.path.end(),
                      [](LinkId a, const FairShare::Hop& hop) { return a.value() == hop.link; });
  }
  Index make_bundle(std::span<const LinkId> path, Lane lane, double cap) {
    const Index b = share.add_bundle(path, lane, cap);
    queues.emplace_back();
    return b;
  }
  void grow_buckets() {
    buckets.assign(std::max<std::size_t>(64, buckets.size() * 2), kNone);
    for (Index b = 0; b < queues.size(); ++b) {
      if (!queues[b].capped) insert(b);
    }
  }
  void insert(Index b) {
    std::size_t i = queues[b].hash & (buckets.size() - 1);
    while (buckets[i] != kNone) i = (i + 1) & (buckets.size() - 1);
    buckets[i] = b;
  }
  Index bundle_for(const FlowSpec& spec) {
    if (!spec.cap.is_unlimited()) {  // caps are nearly unique: a bundle for this flow alone
      const double cap = to_bits_per_sec(spec.cap);
      if (free_bundles.empty()) {
        const Index made = make_bundle(spec.path, spec.lane, cap);
        queues[made].capped = true;
        return made;
      }
      const Index b = free_bundles.back();
      free_bundles.pop_back();
      for (const FairShare::Hop& hop : share.bundle(b).path) {
        links[hop.link].bytes[index(share.bundle(b).lane)] += queues[b].bytes_done;
      }
      queues[b].bytes_done = 0;
      share.reuse_bundle(b, spec.path, spec.lane, cap);
      return b;
    }
    const std::uint64_t h = hash(spec.path, spec.lane);
    if (2 * (hashed + 1) > buckets.size()) grow_buckets();
    std::size_t i = h & (buckets.size() - 1);
    while (buckets[i] != kNone) {
      if (queues[buckets[i]].hash == h && same(buckets[i], spec.path, spec.lane)) return buckets[i];
      i = (i + 1) & (buckets.size() - 1);
    }
    const Index b = make_bundle(spec.path, spec.lane, kInfinite);
    queues[b].hash = h;
    buckets[i] = b;
    ++hashed;
    return b;
  }

  // -- progress
  void advance(Queue& queue, TimePoint now) {
    if (queue.updated == now) return;
    if (queue.rate > 0 && queue.rate < kInfinite && !queue.heap.empty()) {
      queue.served += bits_in(now - queue.updated, queue.rate);
      if (queue.served > kRebaseBits) rebase(queue);
    }
    queue.updated = now;
  }
  void rebase(Queue& queue) {
    for (HeapEntry& entry : queue.heap) {
      entry.finish -= queue.served;
      flows[entry.slot].start -= queue.served;
    }
    queue.served = 0;
  }
  // Has the first flow ended at the time of the last advance()?
  bool ended_by(const Queue& queue) const {
    const double left = queue.heap[0].finish - queue.served;
    if (left * 1e12 > queue.rate) return false;  // a picosecond or more: the usual case
    return time_for(left, queue.rate) == Duration::zero();
  }
  void set_due(Queue& queue) {
    const Duration left = queue.heap.empty()
                              ? Duration::max()
                              : time_for(queue.heap[0].finish - queue.served, queue.rate);
    // Later than the clock can say is never.
    queue.due = left >= kNever - queue.updated ? kNever : queue.updated + left;
  }
  std::int64_t passed_bytes(const Flow& flow) {
    if (flow.place == kNone) return flow.bytes;
    const Queue& queue = queues[flow.bundle];
    double served = queue.served;
    if (queue.rate > 0 && queue.rate < kInfinite) {
      served += bits_in(loop.now() - queue.updated, queue.rate);
    }
    const double bytes = std::floor((served - flow.start) / 8);
    return std::clamp(static_cast<std::int64_t>(bytes), std::int64_t{0}, flow.bytes);
  }

  // -- heap of a bundle: first by finish, equal ones in any order (they end together)
  void place(Queue& queue, std::size_t i, HeapEntry entry) {
    queue.heap[i] = entry;
    flows[entry.slot].place = static_cast<std::uint32_t>(i);
  }
  void up(Queue& queue, std::size_t i, HeapEntry entry) {
    while (i > 0 && entry.finish < queue.heap[(i - 1) / 2].finish) {
      place(queue, i, queue.heap[(i - 1) / 2]);
      i = (i - 1) / 2;
    }
    place(queue, i, entry);
  }
  void down(Queue& queue, std::size_t i, HeapEntry entry) {
    const std::size_t size = queue.heap.size();
    for (std::size_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && queue.heap[child + 1].finish < queue.heap[child].finish) ++child;
      if (!(queue.heap[child].finish < entry.finish)) break;
      place(queue, i, queue.heap[child]);
      i = child;
    }
    place(queue, i, entry);
  }

  void add_flow(Index b, std::uint32_t slot, double bits) {
    Queue& queue = queues[b];
    if (queue.heap.empty()) {
      queue.served = 0;
      queue.rate = 0;
      queue.updated = loop.now();
      queue.place = static_cast<std::uint32_t>(active.size());
      active.push_back(b);
    } else {
      advance(queue, loop.now());
    }
    flows[slot].bundle = b;
    flows[slot].start = queue.served;
    queue.heap.push_back({});
    up(queue, queue.heap.size() - 1, {queue.served + bits, slot});
    queue.changed = true;
    share.set_flows(b, static_cast<std::uint32_t>(queue.heap.size()));
  }
  void remove_flow(Flow& flow) {
    Queue& queue = queues[flow.bundle];
    const std::size_t i = flow.place;
    const HeapEntry last = queue.heap.back();
    queue.heap.pop_back();
    if (i < queue.heap.size()) {
      if (i > 0 && last.finish < queue.heap[(i - 1) / 2].finish) {
        up(queue, i, last);
      } else {
        down(queue, i, last);
      }
    }
    flow.place = kNone;
    queue.changed = true;
    share.set_flows(flow.bundle, static_cast<std::uint32_t>(queue.heap.size()));
    if (!queue.heap.empty()) return;
    queue.due = kNever;
    const Index moved = active.back();
    active[queue.place] = moved;
    queues[moved].place = queue.place;
    active.pop_back();
    if (queue.capped) free_bundles.push_back(flow.bundle);
  }
  void free_flow(Flow& flow) {
    free_flows.push_back(static_cast<std::uint32_t>(flow.id & kSlotMask));
    flow.id = 0;
    --active_flows;
  }

  // -- time
  void pump_at(TimePoint at) {
    if (timer_at == at) return;
    if (timer_at != kNever) loop.cancel(timer);
    timer_at = at;
    if (at != kNever) {
      timer = loop.schedule_at(
          at, {[](void* self, std::uint64_t) { static_cast<State*>(self)->pump(); }, this, 0});
    }
  }
  // Something changed: rates are found once, after everything else that happens at this instant.
  void changed() {
    if (!pumping) pump_at(loop.now());
  }
  void accrue(LinkState& link, TimePoint now) {
    const Duration elapsed = now - link.updated;
    link.updated = now;
    if (!link.moving) return;
    link.busy += elapsed;
    if (!link.capacity.is_unlimited() && link.capacity.bits_per_sec() > 0) {
      link.share_time += to_seconds(elapsed) * (link.load / to_bits_per_sec(link.capacity));
    }
  }
  void settle() {
    if (!share.dirty()) return;
    share.solve();
    const TimePoint now = loop.now();
    for (const Index b : share.touched_bundles()) {
      Queue& queue = queues[b];
      const double rate = share.bundle(b).rate;
      if (rate == queue.rate && !queue.changed) continue;
      advance(queue, now);
      queue.rate = rate;
      queue.changed = false;
      set_due(queue);
    }
    for (const Index l : share.touched_links()) {
      accrue(links[l], now);
      links[l].load = share.link(l).load;
      links[l].moving = share.link(l).moving;
    }
  }
  // Ends what is due, finds the rates, waits for the next end.
  void pump() {
    timer_at = kNever;
    pumping = true;
    settle();
    const TimePoint now = loop.now();
    for (std::size_t i = active.size(); i-- > 0;) {
      const Index b = active[i];
      Queue& queue = queues[b];
      if (queue.due > now) continue;
      advance(queue, now);
      // The first one is due by its own time, whatever rounding says: progress is certain.
      do {
        Flow& flow = flows[queue.heap[0].slot];
        ended.push_back(flow.id);
        queue.bytes_done += flow.bytes;
        remove_flow(flow);
      } while (!queue.heap.empty() && ended_by(queue));
    }
    if (ended.size() > 1) {  // equal times: in the order of their start
      std::sort(ended.begin(), ended.end());
    }
    for (std::size_t i = 0; i < ended.size(); ++i) {
      Flow& flow = flows[ended[i] & kSlotMask];
      const Callback completion = flow.completion;
      free_flow(flow);
      if (completion) completion();
    }
    ended.clear();
    settle();
    pumping = false;
    TimePoint next = kNever;
    for (const Index b : active) next = std::min(next, queues[b].due);
    pump_at(next);
  }
};

FluidNetwork::FluidNetwork(EventLoop& loop) : state_(std::make_unique<State>(loop)) {}
FluidNetwork::~FluidNetwork() = default;

LinkId FluidNetwork::add_link(std::string name, Bandwidth capacity, bool lane_priority) {
  KVLANE_CHECK(capacity.bits_per_sec() >= 0, "capacity of {} is negative", name);
  const Index l = state_->share.add_link(to_bits_per_sec(capacity), lane_priority);
  LinkState& link = state_->links.emplace_back();
  link.name = std::move(name);
  link.capacity = capacity;
  return LinkId(l);
}

void FluidNetwork::set_capacity(LinkId link, Bandwidth capacity) {
  LinkState& state = state_->links.at(link.index());
  KVLANE_CHECK(capacity.bits_per_sec() >= 0, "capacity of {} is negative", state.name);
  state_->settle();
  state_->accrue(state, state_->loop.now());  // the share up to now is one of the old capacity
  state.capacity = capacity;
  state_->share.set_capacity(link.value(), to_bits_per_sec(capacity));
  state_->changed();
}

void FluidNetwork::set_lane_priority(LinkId link, bool lane_priority) {
  KVLANE_CHECK(link.index() < state_->links.size(), "no link {}", link.value());
  state_->share.set_lane_priority(link.value(), lane_priority);
  state_->changed();
}

Bandwidth FluidNetwork::capacity(LinkId link) const {
  return state_->links.at(link.index()).capacity;
}
bool FluidNetwork::lane_priority(LinkId link) const {
  return state_->share.link(link.value()).lane_priority;
}
const std::string& FluidNetwork::name(LinkId link) const {
  return state_->links.at(link.index()).name;
}
std::size_t FluidNetwork::link_count() const { return state_->links.size(); }

FlowId FluidNetwork::start(const FlowSpec& spec, Callback completion) {
  State& s = *state_;
  KVLANE_CHECK(spec.bytes.count() >= 0, "flow of {} bytes", spec.bytes.count());
  KVLANE_CHECK(spec.cap.bits_per_sec() > 0, "the cap of a flow must be positive");
  std::uint32_t slot = static_cast<std::uint32_t>(s.flows.size());
  if (s.free_flows.empty()) {
    KVLANE_CHECK(slot <= kSlotMask, "too many flows: {}", slot);
    s.flows.emplace_back();
  } else {
    slot = s.free_flows.back();
    s.free_flows.pop_back();
  }
  const Index b = s.bundle_for(spec);
  Flow& flow = s.flows[slot];
  flow.id = (++s.sequence << kSlotBits) | slot;
  flow.bytes = spec.bytes.count();
  flow.completion = completion;
  ++s.active_flows;
  s.add_flow(b, slot, static_cast<double>(flow.bytes) * 8);
  s.changed();
  return {flow.id};
}

Bytes FluidNetwork::cancel(FlowId id) {
  State& s = *state_;
  Flow* flow = s.find(id);
  if (flow == nullptr) return Bytes(0);
  const std::int64_t passed = s.passed_bytes(*flow);
  if (flow->place == kNone) {  // it has ended at this very instant; keep the slot for the pump
    flow->completion = {};
    return Bytes(passed);
  }
  Queue& queue = s.queues[flow->bundle];
  s.advance(queue, s.loop.now());
  queue.bytes_done += passed;
  s.remove_flow(*flow);
  s.free_flow(*flow);
  s.changed();
  return Bytes(passed);
}

bool FluidNetwork::active(FlowId id) const {
  const Flow* flow = state_->find(id);
  return flow != nullptr && flow->place != kNone;
}

Bandwidth FluidNetwork::rate(FlowId id) const {
  const Flow* flow = state_->find(id);
  if (flow == nullptr || flow->place == kNone) return Bandwidth::bits_per_sec(0);
  state_->settle();
  const double rate = state_->queues[flow->bundle].rate;
  if (!(rate < 9.2e18)) return Bandwidth::unlimited();
  return Bandwidth::bits_per_sec(static_cast<std::int64_t>(rate));
}

Bytes FluidNetwork::remaining(FlowId id) const {
  const Flow* flow = state_->find(id);
  if (flow == nullptr) return Bytes(0);
  return Bytes(flow->bytes - state_->passed_bytes(*flow));
}

std::size_t FluidNetwork::active_flows() const { return state_->active_flows; }

LinkUsage FluidNetwork::usage(LinkId link) const {
  State& s = *state_;
  LinkState& state = s.links.at(link.index());
  s.settle();
  s.accrue(state, s.loop.now());
  LinkUsage usage;
  usage.busy = state.busy;
  usage.share_time = state.share_time;
  std::array<std::int64_t, kLaneCount> bytes = state.bytes;
  for (Index b = 0; b < s.queues.size(); ++b) {
    const FairShare::Bundle& bundle = s.share.bundle(b);
    const bool crosses = std::any_of(bundle.path.begin(), bundle.path.end(),
                                     [&](const auto& hop) { return hop.link == link.value(); });
    if (!crosses) continue;
    bytes[index(bundle.lane)] += s.queues[b].bytes_done;
    for (const HeapEntry& entry : s.queues[b].heap) {
      bytes[index(bundle.lane)] += s.passed_bytes(s.flows[entry.slot]);
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) usage.bytes[i] = Bytes(bytes[i]);
  return usage;
}

}  // namespace kvlane
