#pragma once
// All roles of a scenario in one process and on one loop, joined by a real wire: the serving code,
// transports and memory of a live run without its sessions.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/role/role.h"
#include "calibrate/live/shm/shm_backend.h"
#include "calibrate/live/tcp/tcp_backend.h"

namespace kvlane::live::test {

// Between a transport and its connection: the place for faults. May be null.
using WrapPending = std::function<std::unique_ptr<PendingConnection>(
    ConnectionOwner& owner,
    const std::function<std::unique_ptr<PendingConnection>(ConnectionOwner&)>& make)>;

// The backend of one end of a pair of roles; `listener`: of the pair, made by its first end.
struct MeshEnd {
  WallLoop& loop;
  Pool& pool;
  std::size_t side;  // 0 listens
  std::unique_ptr<Listener>& listener;
};
using MakeWire = std::function<std::unique_ptr<Backend>(const MeshEnd&)>;

inline std::unique_ptr<Backend> tcp_wire(const MeshEnd& end) {
  if (end.side == 0) {
    end.listener = std::make_unique<Listener>(end.loop, parse_address("127.0.0.1:0", "test"));
  }
  return std::make_unique<TcpBackend>(end.loop, end.side == 0 ? end.listener.get() : nullptr,
                                      end.listener->address());
}

inline std::unique_ptr<Backend> shm_wire(const MeshEnd& end) {
  return std::make_unique<ShmBackend>(end.loop, end.pool);
}

class RoleMesh {
 public:
  // Arguments outlive it.
  RoleMesh(WallLoop& wall, const Scenario& scenario, const LiveOptions& options,
           const MakeWire& wire, const WrapPending& wrap = nullptr)
      : loop(wall), scenario_(scenario), options_(options), places_(places_of(scenario)) {
    for (std::size_t e = 0; e < places_.endpoint_names.size(); ++e) {
      ends.push_back(
          std::make_unique<RoleEnd>(loop, scenario, options, ComputeKind::modeled, EndpointId(e)));
    }
    for (const EndpointId prefill : places_.prefills) connect(prefill, wire, wrap);
  }
  ~RoleMesh() {
    for (auto& end : ends) end->transport->close();
  }

  RoleEnd& decode() { return *ends[places_.decode.index()]; }

  // One run of a strategy of the scenario to its last token and until nothing moves any more.
  // Throws what a role throws. The records of all roles, in order.
  std::vector<TraceRecord> run(std::uint32_t strategy) {
    const RunNumber number{strategy, 0, ++runs_};
    std::vector<std::vector<RegionPlace>> told;
    for (auto& end : ends) told.push_back(end->prepare(number));
    for (const EndpointId prefill : places_.prefills) {
      tell(places_.decode, prefill, told);
      tell(prefill, places_.decode, told);
    }
    for (const EndpointId prefill : places_.prefills) {
      RoleEnd& end = *ends[prefill.index()];
      end.deployment().router().on_prefill_ended([this, prefill](RequestId request) {
        for (const EndpointId other : places_.prefills) {
          if (other != prefill) {
            ends[other.index()]->deployment().router().prefill_ended_elsewhere(request);
          }
        }
      });
    }
    Watch watch{&loop, scenario_.output_tokens, decode().plans().size()};
    const TimePoint zero = later(loop.clock(), std::chrono::milliseconds(1));
    for (auto& end : ends) end->start(zero, end.get() == &decode() ? &watch : nullptr);
    while (watch.left > 0) {
      decode().run();
      for (auto& end : ends) end->check();
    }
    for (auto& end : ends) end->drain();
    std::vector<TraceRecord> records;
    for (auto& end : ends) {
      const std::vector<TraceRecord> part = end->finish();
      records.insert(records.end(), part.begin(), part.end());
    }
    sort_records(records);
    return records;
  }

  WallLoop& loop;
  std::vector<std::unique_ptr<RoleEnd>> ends;  // by endpoint

 private:
  struct Watch final : TraceSink {
    Watch(WallLoop* l, std::int64_t tokens, std::size_t requests)
        : loop(l), last(tokens), left(requests) {}
    void record(const TraceRecord& r) override {
      if (r.kind == TraceKind::token && r.iteration == last && --left == 0) loop->stop();
    }
    WallLoop* loop;
    std::int64_t last;
    std::size_t left;
  };

  void tell(EndpointId from, EndpointId to, const std::vector<std::vector<RegionPlace>>& told) {
    RemoteRegions& remote = ends[to.index()]->transport->remote_of(from);
    remote.clear();
    for (const RegionPlace& place : told[from.index()]) remote.set(place);
  }

  void connect(EndpointId prefill, const MakeWire& wire, const WrapPending& wrap) {
    std::unique_ptr<Listener>& listener = listeners_.emplace_back();
    const std::array<EndpointId, 2> sides{prefill, places_.decode};
    std::array<std::unique_ptr<PendingConnection>, 2> pending;
    for (std::size_t side : {0U, 1U}) {
      RoleEnd& end = *ends[sides[side].index()];
      const EndpointId peer = sides[1 - side];
      backends_.push_back(wire({loop, *end.pool, side, listener}));
      ConnectionOptions connection;
      connection.queues = places_.queues;
      connection.checksum = options_.checksum;
      const ConnectionMemory memory{end.regions.get(), &end.transport->remote_of(peer)};
      Backend& backend = *backends_.back();
      const auto make = [&](ConnectionOwner& owner) {
        return backend.prepare(
            owner, memory, connection, side == 0,
            {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
      };
      ConnectionOwner& owner = end.transport->owner_of(peer);
      pending[side] = wrap ? wrap(owner, make) : make(owner);
    }
    const auto first = pending[0]->offer();
    const auto second = pending[1]->offer();
    pending[1]->connect(first);
    pending[0]->connect(second);
    std::array<std::unique_ptr<Connection>, 2> made;
    loop.hold();
    while (!made[0] || !made[1]) {
      for (std::size_t side : {0U, 1U}) {
        if (!made[side]) made[side] = pending[side]->take();
        if (!pending[side]->error().empty()) throw RunError(pending[side]->error());
      }
      if (!made[0] || !made[1]) loop.run();
    }
    loop.release();
    for (std::size_t side : {0U, 1U}) {
      ends[sides[side].index()]->transport->connect(sides[1 - side], std::move(made[side]));
      pending_.push_back(std::move(pending[side]));
    }
  }

  const Scenario& scenario_;
  const LiveOptions& options_;
  const Places places_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<PendingConnection>> pending_;
  std::uint64_t runs_ = 0;
};

}  // namespace kvlane::live::test
