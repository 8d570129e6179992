#pragma once
// Two or more endpoints at one switch, and a log of completions and messages.

#include <deque>
#include <string>
#include <vector>

#include "sim/des/virtual_loop.h"
#include "sim/net/sim_transport.h"

namespace kvlane {

struct TransportFixture : TraceSink {
  struct Arrival {
    TimePoint at;
    EndpointId from;
    std::uint64_t cookie;
    std::vector<BlockRun> runs;
  };
  struct Handler final : MessageHandler {
    TransportFixture* fixture = nullptr;
    void on_message(EndpointId from, const Message& message) override {
      fixture->arrivals.push_back(
          {fixture->loop.now(), from, message.cookie, {message.runs.begin(), message.runs.end()}});
    }
  };

  VirtualLoop loop;
  FluidNetwork network{loop};
  Topology topology{network};
  SimTransport transport{loop, network, topology, this};
  NodeId hub = topology.add_node("switch");
  Handler handler;
  std::vector<Arrival> arrivals;
  std::vector<TimePoint> done = std::vector<TimePoint>(64, kNever);
  std::vector<TransferStatus> status = std::vector<TransferStatus>(64, TransferStatus::failed);
  std::vector<TraceRecord> records;

  TransportFixture() { handler.fixture = this; }
  void record(const TraceRecord& r) override { records.push_back(r); }

  EndpointId endpoint(const std::string& name, const NicSpec& nic, Duration cable = Duration{0}) {
    const NodeId node = topology.add_node(name);
    topology.add_cable(node, hub, nic.rate, cable, true);
    const EndpointId id = transport.add_endpoint(node, nic);
    transport.set_handler(id, &handler);
    return id;
  }
  TransferId post(std::uint64_t name, const TransferSpec& spec) {
    posted.push_back({this, name});
    return transport.post(spec, {[](void* self, std::uint64_t s) {
                                   auto& p = *static_cast<Posted*>(self);
                                   p.fixture->done[p.name] = p.fixture->loop.now();
                                   p.fixture->status[p.name] = static_cast<TransferStatus>(s);
                                 },
                                 &posted.back(), 0});
  }
  Duration took(std::uint64_t name) const { return done[name].time_since_epoch(); }
  void run_to(Duration time) {
    bool there = false;
    loop.schedule_at(
        TimePoint(time),
        {[](void* flag, std::uint64_t) { *static_cast<bool*>(flag) = true; }, &there, 0});
    while (!there) loop.run_one();
  }

 private:
  struct Posted {
    TransportFixture* fixture;
    std::uint64_t name;
  };
  std::deque<Posted> posted;
};

inline NicSpec plain_nic(Bandwidth rate) {
  NicSpec nic;
  nic.name = "nic";
  nic.rate = rate;
  return nic;
}

inline TransferSpec transfer(TransferOp op, EndpointId from, EndpointId to, std::int64_t bytes,
                             Lane lane = Lane::proactive) {
  TransferSpec spec;
  spec.op = op;
  spec.lane = lane;
  spec.poster = from;
  spec.peer = to;
  spec.bytes = Bytes(bytes);
  return spec;
}

}  // namespace kvlane
