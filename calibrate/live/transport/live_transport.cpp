#include "calibrate/live/transport/live_transport.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr unsigned kSlotBits = 24;
constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;

}  // namespace

struct LiveTransport::Peer final : ConnectionOwner {
  Peer(LiveTransport& t, EndpointId e) : transport(t), endpoint(e) {}
  void completed(std::uint64_t id, TransferStatus status, TimePoint begin,
                 TimePoint applied) override {
    transport.completed(*this, id, status, begin, applied);
  }
  void arrived(Lane, std::uint32_t, std::span<const std::byte> message) override {
    transport.arrived(*this, message);
  }
  void lost(const std::string& reason) override { transport.lost(*this, reason); }

  LiveTransport& transport;
  EndpointId endpoint;
  RemoteRegions remote;
  std::unique_ptr<Connection> connection;
  Duration shift{0};
  bool gone = false;
  std::size_t in_flight = 0;
  std::uint64_t done = 0;   // completions
  std::uint64_t moved = 0;  // at the last look
  TimePoint moved_at{};
};

LiveTransport::LiveTransport(WallLoop& loop, EndpointId self, RegionTable& regions, Options options)
    : loop_(loop), self_(self), regions_(regions), options_(options) {}

LiveTransport::~LiveTransport() {
  if (progress_timer_) loop_.cancel(progress_timer_);
  close();
}

ConnectionOwner& LiveTransport::owner_of(EndpointId peer) {
  auto& made = peers_[peer];
  if (!made) made = std::make_unique<Peer>(*this, peer);
  return *made;
}

RemoteRegions& LiveTransport::remote_of(EndpointId peer) {
  owner_of(peer);
  return peers_[peer]->remote;
}

void LiveTransport::connect(EndpointId peer, std::unique_ptr<Connection> connection) {
  owner_of(peer);
  peers_[peer]->connection = std::move(connection);
}

void LiveTransport::set_clock(EndpointId peer, Duration shift) {
  owner_of(peer);
  peers_[peer]->shift = shift;
}

void LiveTransport::set_line(EndpointId peer, Bandwidth payload) {
  owner_of(peer);
  if (peers_[peer]->connection) peers_[peer]->connection->set_line(payload);
}

void LiveTransport::begin_run(TraceSink* trace, Inspector* inspector, TimePoint zero) {
  zero_ = zero;
  trace_ = trace;
  inspector_ = inspector;
  for (auto& [endpoint, peer] : peers_) peer->moved_at = loop_.clock();
  if (!progress_timer_) watch_progress();
}

void LiveTransport::end_run() {
  if (progress_timer_) loop_.cancel(progress_timer_);
  progress_timer_ = {};
  trace_ = nullptr;
  inspector_ = nullptr;
  handler_ = nullptr;
  for (Posted& posted : posted_) {
    if (!posted.live) continue;
    posted.live = false;
    posted.completion = {};
    --posted.peer->in_flight;
    --in_flight_;
    free_.push_back(static_cast<std::uint32_t>(posted.operation.id & kSlotMask));
  }
}

// A peer with operations in flight that moves nothing, in either direction, for the time-out.
void LiveTransport::watch_progress() {
  for (auto& [endpoint, peer] : peers_) {
    if (!peer->connection || peer->gone) continue;
    const ConnectionCounters& counters = peer->connection->counters();
    const std::uint64_t moved = counters.bytes_out + counters.bytes_in + peer->done;
    if (moved != peer->moved || peer->in_flight == 0) {
      peer->moved = moved;
      peer->moved_at = loop_.now();
    } else if (loop_.now() - peer->moved_at > options_.timeout) {
      lost(*peer, fmt::format("{} operations in flight and nothing moved for {:.1f} s",
                              peer->in_flight, to_seconds(loop_.now() - peer->moved_at)));
    }
  }
  progress_timer_ = loop_.schedule_after(
      options_.timeout / 8,
      {[](void* self, std::uint64_t) { static_cast<LiveTransport*>(self)->watch_progress(); }, this,
       0});
}

TransferId LiveTransport::post(const TransferSpec& spec, Callback completion) {
  KVLANE_CHECK(spec.poster == self_, "endpoint {} posts for {}", self_.value(),
               spec.poster.value());
  const auto found = peers_.find(spec.peer);
  KVLANE_CHECK(found != peers_.end() && found->second->connection, "no connection to endpoint {}",
               spec.peer.value());
  Peer& peer = *found->second;

  auto slot = static_cast<std::uint32_t>(posted_.size());
  if (free_.empty()) {
    KVLANE_CHECK(slot <= kSlotMask, "too many transfers: {}", slot);
    posted_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Posted& posted = posted_[slot];
  posted.live = true;
  posted.peer = &peer;
  posted.completion = completion;
  Operation& o = posted.operation;
  o.id = (++sequence_ << kSlotBits) | slot;
  o.op = spec.op;
  o.lane = spec.lane;
  o.queue = spec.queue;
  o.fragments.clear();
  o.bytes = 0;
  for (const Fragment& f : spec.fragments) {
    if (f.length == 0) continue;
    o.bytes += f.length;
    Fragment* last = o.fragments.empty() ? nullptr : &o.fragments.back();
    if (last != nullptr && last->region == f.region && last->offset + last->length == f.offset) {
      last->length += f.length;
    } else {
      o.fragments.push_back(f);
    }
  }
  KVLANE_CHECK(spec.fragments.empty() || o.bytes == spec.bytes.count(),
               "{} bytes in fragments of {}", spec.bytes.count(), o.bytes);
  o.message.clear();
  const bool tells = spec.op == TransferOp::send || spec.op == TransferOp::write_with_imm;
  // Control messages and mask updates have a size of their own (docs/system.md 2).
  const std::int64_t least = spec.mask.count() + (spec.fragments.empty() ? spec.bytes.count() : 0);
  if (tells) {
    o.message = encode_message(spec.message, least);
  } else {
    KVLANE_CHECK(!spec.fragments.empty() || spec.bytes.count() == 0,
                 "{} bytes without a place in memory", spec.bytes.count());
  }

  const bool read = spec.op == TransferOp::read;
  TraceRecord& r = posted.record;
  r = {};
  r.kind = TraceKind::transfer;
  r.lane = spec.lane;
  r.detail = static_cast<std::uint8_t>(spec.op);
  r.metadata = spec.metadata;
  r.iteration = spec.message.iteration;
  r.request = spec.request;
  r.layer = spec.message.layer;
  r.source = read ? spec.peer : spec.poster;
  r.destination = read ? spec.poster : spec.peer;
  r.bytes = spec.bytes;
  r.mask = spec.mask;
  r.value = static_cast<std::int64_t>(std::max<std::size_t>(1, o.fragments.size()));
  r.flow = o.id;

  ++counters_.posted;
  ++in_flight_;
  ++peer.in_flight;
  if (peer.in_flight == 1) peer.moved_at = loop_.now();
  const TransferId id{o.id};
  if (peer.gone) {
    // Its failure was told; the completion still comes from the loop.
    loop_.schedule_at(loop_.now(), {[](void* self, std::uint64_t which) {
                                      auto& transport = *static_cast<LiveTransport*>(self);
                                      Posted* late = transport.find(which);
                                      if (late != nullptr) {
                                        transport.finish(*late, TransferStatus::failed);
                                      }
                                    },
                                    this, o.id});
  } else {
    peer.connection->post(o);
  }
  return id;
}

LiveTransport::Posted* LiveTransport::find(std::uint64_t id) {
  const std::uint64_t slot = id & kSlotMask;
  if (slot >= posted_.size()) return nullptr;
  Posted& posted = posted_[slot];
  return posted.live && posted.operation.id == id ? &posted : nullptr;
}

void LiveTransport::finish(Posted& posted, TransferStatus status) {
  const Callback completion = posted.completion;
  posted.live = false;
  posted.completion = {};
  --posted.peer->in_flight;
  --in_flight_;
  free_.push_back(static_cast<std::uint32_t>(posted.operation.id & kSlotMask));
  ++(status == TransferStatus::ok ? counters_.completed : counters_.failed);
  if (completion) completion.function(completion.context, static_cast<std::uint64_t>(status));
}

void LiveTransport::completed(Peer& peer, std::uint64_t id, TransferStatus status, TimePoint begin,
                              TimePoint applied) {
  Posted* posted = find(id);
  if (posted == nullptr || posted->peer != &peer) {
    ++counters_.stale;
    return;
  }
  ++peer.done;
  if (status == TransferStatus::ok) {
    const bool read = posted->operation.op == TransferOp::read;
    // Clocks of two hosts agree to within an error only.
    const TimePoint end = std::max(begin, applied == kNotTold ? loop_.clock()
                                          : read              ? applied
                                                              : later(applied, peer.shift));
    posted->record.begin = TimePoint(begin - zero_);
    posted->record.end = TimePoint(end - zero_);
    if (read && inspector_ != nullptr) inspector_->fetched(posted->operation.fragments);
    if (trace_ != nullptr) trace_->record(posted->record);
  } else if (status == TransferStatus::failed && inspector_ != nullptr && failure_) {
    // Whoever waits for these bytes would wait for ever.
    failure_(peer.endpoint,
             fmt::format("{} bytes in {} pieces had no place there", posted->operation.bytes,
                         posted->operation.fragments.size()),
             posted->record.request);
  }
  finish(*posted, status);
}

bool LiveTransport::cancel(TransferId transfer) {
  Posted* posted = find(transfer.value);
  if (posted == nullptr || posted->peer->gone) return false;
  if (!posted->peer->connection->cancel(transfer.value)) return false;
  loop_.schedule_at(loop_.now(), {[](void* self, std::uint64_t id) {
                                    auto& transport = *static_cast<LiveTransport*>(self);
                                    Posted* gone = transport.find(id);
                                    if (gone != nullptr) {
                                      transport.finish(*gone, TransferStatus::cancelled);
                                    }
                                  },
                                  this, transfer.value});
  return true;
}

void LiveTransport::set_handler(EndpointId endpoint, MessageHandler* handler) {
  KVLANE_CHECK(endpoint == self_, "a handler for endpoint {} at {}", endpoint.value(),
               self_.value());
  handler_ = handler;
}

void LiveTransport::arrived(Peer& peer, std::span<const std::byte> bytes) {
  if (peer.gone) return;
  if (!decode_message(bytes, scratch_)) {
    lost(peer, fmt::format("sent a message of {} bytes that is none", bytes.size()));
    return;
  }
  const Message& message = scratch_.message;
  if (handler_ == nullptr || inspector_ == nullptr) return;  // of a run that has ended
  if (const std::string problem = inspector_->problem(peer.endpoint, message); !problem.empty()) {
    lost(peer, problem);
    return;
  }
  inspector_->arrived(peer.endpoint, message);
  try {
    handler_->on_message(peer.endpoint, message);
  } catch (const std::logic_error& error) {
    // It names what is there and still does not fit: an answer to what was never asked, say.
    lost(peer, fmt::format("sent a message that does not fit: {}", error.what()));
  }
}

void LiveTransport::lost(Peer& peer, const std::string& reason) {
  if (std::exchange(peer.gone, true)) return;
  // First the reason, then the completions: whoever acts on those knows why.
  if (failure_) failure_(peer.endpoint, reason, {});
  for (std::size_t i = 0; i < posted_.size(); ++i) {
    if (posted_[i].live && posted_[i].peer == &peer) finish(posted_[i], TransferStatus::failed);
  }
}

TransportLimits LiveTransport::limits(EndpointId) const {
  for (const auto& [endpoint, peer] : peers_) {
    if (peer->connection) return peer->connection->limits();
  }
  return {};
}

const Connection* LiveTransport::connection(EndpointId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second->connection.get();
}

void LiveTransport::close() {
  for (auto& [endpoint, peer] : peers_) {
    if (!peer->connection) continue;
    peer->gone = true;
    peer->connection->close();
    if (peer->connection->fenced()) regions_.ended(endpoint.value());
    peer->connection.reset();
  }
}

}  // namespace kvlane::live
