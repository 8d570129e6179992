#pragma once
// Two endpoints in one process and on one loop, connected by a backend: 0 listens, 1 connects.

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/live/memory/pattern.h"
#include "calibrate/live/shm/shm_backend.h"
#include "calibrate/live/tcp/tcp_backend.h"
#include "calibrate/live/transport/live_transport.h"
#include "sim/port/trace.h"

namespace kvlane::live::test {

inline constexpr RegionId kRegion{7};

// Lets every message through and keeps what it saw.
struct Witness final : Inspector, MessageHandler, TraceSink {
  struct Seen {
    OwnedMessage message;
    bool bytes_were_there = true;
  };
  std::vector<Seen> seen;
  std::vector<TraceRecord> records;
  std::function<bool(const Message&)> look;  // do its bytes lie in place?
  std::size_t fetched_pieces = 0;

  std::string problem(EndpointId, const Message& message) override {
    return message.kind == MessageKind::release ? "released what was never there" : "";
  }
  void arrived(EndpointId, const Message&) override {}
  void fetched(std::span<const Fragment> fragments) override { fetched_pieces += fragments.size(); }
  void on_message(EndpointId, const Message& message) override {
    Seen s;
    s.message.runs.assign(message.runs.begin(), message.runs.end());
    s.message.groups.assign(message.groups.begin(), message.groups.end());
    s.message.index.assign(message.index.begin(), message.index.end());
    s.message.message = message;
    if (look) s.bytes_were_there = look(message);
    seen.push_back(std::move(s));
  }
  void record(const TraceRecord& r) override { records.push_back(r); }
};

struct End {
  End(WallLoop& loop, EndpointId self, std::size_t bytes, Duration timeout)
      : pool(bytes), regions(pool), transport(loop, self, regions, {timeout}) {
    transport.on_failure(
        [this](EndpointId, const std::string& reason, RequestId) { lost = reason; });
    transport.begin_run(&witness, &witness);
    transport.set_handler(self, &witness);
  }
  Pool pool;
  RegionTable regions;
  LiveTransport transport;
  Witness witness;
  std::string lost;
};

// Wraps a connection before a transport gets it; the place for faults.
using Wrap = std::function<std::unique_ptr<PendingConnection>(
    std::size_t end, ConnectionOwner& owner,
    const std::function<std::unique_ptr<PendingConnection>(ConnectionOwner&)>& make)>;

class Pair {
 public:
  // `make(end)`: the backend of that end.
  Pair(std::size_t pool_bytes, std::size_t region_bytes, ConnectionOptions options,
       const std::function<std::unique_ptr<Backend>(Pair&, std::size_t end)>& make,
       Duration timeout = std::chrono::seconds(5), const Wrap& wrap = nullptr)
      : ends{std::make_unique<End>(loop, EndpointId(0), pool_bytes, timeout),
             std::make_unique<End>(loop, EndpointId(1), pool_bytes, timeout)} {
    for (std::size_t e : {0U, 1U}) {
      End& end = *ends[e];
      end.regions.create(kRegion, static_cast<std::int64_t>(region_bytes));
      backends[e] = make(*this, e);
    }
    for (std::size_t e : {0U, 1U}) {
      ends[1 - e]->transport.remote_of(EndpointId(e)).set(ends[e]->regions.expose(kRegion));
    }
    for (std::size_t e : {0U, 1U}) {
      End& end = *ends[e];
      const EndpointId peer(1 - e);
      const ConnectionMemory memory{&end.regions, &end.transport.remote_of(peer)};
      const auto plain = [&](ConnectionOwner& owner) {
        return backends[e]->prepare(
            owner, memory, options, e == 0,
            {[](void* self, std::uint64_t) { static_cast<Pair*>(self)->loop.stop(); }, this, 0});
      };
      pending[e] =
          wrap ? wrap(e, end.transport.owner_of(peer), plain) : plain(end.transport.owner_of(peer));
    }
    const auto first = pending[0]->offer();
    const auto second = pending[1]->offer();
    pending[1]->connect(first);
    pending[0]->connect(second);
    std::array<std::unique_ptr<Connection>, 2> made;
    loop.hold();
    while ((!made[0] || !made[1]) && error().empty()) {
      loop.run();
      for (std::size_t e : {0U, 1U}) {
        if (!made[e]) made[e] = pending[e]->take();
      }
    }
    loop.release();
    for (std::size_t e : {0U, 1U}) {
      if (made[e]) ends[e]->transport.connect(EndpointId(1 - e), std::move(made[e]));
    }
  }
  ~Pair() {
    for (auto& end : ends) end->transport.close();
  }
  TimePoint clock() const { return loop.clock(); }
  std::string error() const { return pending[0]->error() + pending[1]->error(); }

  // Until nothing is in flight at either end, or `limit` has passed.
  void settle(Duration limit = std::chrono::seconds(20)) {
    const TimePoint end = loop.clock() + limit;
    struct Tick {
      Pair* pair;
      TimePoint end;
      bool over = false;
      static void call(void* self, std::uint64_t) {
        auto& tick = *static_cast<Tick*>(self);
        const bool idle = tick.pair->ends[0]->transport.in_flight() == 0 &&
                          tick.pair->ends[1]->transport.in_flight() == 0;
        if (idle || tick.pair->loop.now() > tick.end) {
          tick.over = true;
          return tick.pair->loop.stop();
        }
        tick.pair->loop.schedule_after(std::chrono::microseconds(200), {&call, self, 0});
      }
    } tick{this, end, false};
    loop.schedule_at(std::max(loop.now(), loop.clock()), {&Tick::call, &tick, 0});
    while (!tick.over) loop.run();  // others stop it, too
  }

  WallLoop loop;
  std::unique_ptr<Listener> listener;
  std::array<std::unique_ptr<Backend>, 2> backends;
  std::array<std::unique_ptr<End>, 2> ends;
  std::array<std::unique_ptr<PendingConnection>, 2> pending;
};

inline std::unique_ptr<Backend> make_tcp(Pair& pair, std::size_t end) {
  if (end == 0) {
    pair.listener = std::make_unique<Listener>(pair.loop, parse_address("127.0.0.1:0", "test"));
    return std::make_unique<TcpBackend>(pair.loop, pair.listener.get(), SocketAddress{});
  }
  return std::make_unique<TcpBackend>(pair.loop, nullptr, pair.listener->address());
}

inline std::unique_ptr<Backend> make_shm(Pair& pair, std::size_t end) {
  return std::make_unique<ShmBackend>(pair.loop, pair.ends[end]->pool);
}

}  // namespace kvlane::live::test
