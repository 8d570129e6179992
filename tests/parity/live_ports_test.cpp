// The second world keeps the rules of the ports.

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/round_scenario.h"
#include "tests/support/socket_transport.h"
#include "tests/support/wall_loop.h"

namespace kvlane {
namespace {

using namespace literals;
using namespace test;

struct Log {
  WallLoop* loop = nullptr;
  std::vector<std::uint64_t> ran;
  std::vector<TimePoint> at;
  Callback note(std::uint64_t n) {
    return {[](void* self, std::uint64_t i) {
              auto& log = *static_cast<Log*>(self);
              log.ran.push_back(i);
              if (log.loop != nullptr) log.at.push_back(log.loop->now());
            },
            this, n};
  }
};

struct Receiver final : MessageHandler {
  std::vector<std::uint64_t> cookies;
  std::vector<Bytes> landed;
  std::vector<std::vector<BlockRun>> runs;
  SocketTransport* transport = nullptr;
  void on_message(EndpointId, const Message& message) override {
    cookies.push_back(message.cookie);
    runs.emplace_back(message.runs.begin(), message.runs.end());
    landed.push_back(transport->arrived(EndpointId(1), RegionId(7)));
  }
};

}  // namespace

TEST_CASE("WallLoop: by time, equal times in the order they were scheduled, cancelled ones never") {
  WallLoop loop;
  Log log{&loop, {}, {}};
  const TimePoint base = loop.now() + 2_ms;
  loop.schedule_at(base + 1_ms, log.note(3));
  loop.schedule_at(base, log.note(1));
  loop.schedule_at(base, log.note(2));
  const TimerId gone = loop.schedule_at(base, log.note(9));
  CHECK(loop.cancel(gone));
  CHECK(!loop.cancel(gone));
  CHECK(log.ran.empty());  // never inside schedule_at
  loop.run();
  CHECK(log.ran == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(log.at[0] >= base);
  CHECK(log.at[2] >= base + 1_ms);
  CHECK_THROWS_AS(loop.schedule_at(loop.now() - 1_ps, log.note(0)), std::logic_error);
}

TEST_CASE("SocketTransport: one completion a post, from the loop; a message follows its data") {
  Records trace;
  WallLoop loop;
  SocketTransport transport(loop, 2, trace);
  Receiver receiver;
  receiver.transport = &transport;
  transport.set_handler(EndpointId(1), &receiver);
  transport.register_region(EndpointId(0), RegionId(7), Bytes(3'000'000));
  Log done;
  const std::vector<Fragment> pieces{{RegionId(7), 1000, 1'000'000}, {RegionId(7), 2'000'000, 7}};
  const std::vector<BlockRun> runs{{1, 2, 3}, {4, 5, 6}};
  TransferSpec spec;
  spec.op = TransferOp::write;
  spec.poster = EndpointId(0);
  spec.peer = EndpointId(1);
  spec.bytes = Bytes(1'000'007);
  spec.fragments = pieces;
  transport.post(spec, done.note(0));  // one-sided: nobody is told
  spec.op = TransferOp::send;
  spec.fragments = {};
  spec.bytes = Bytes(0);
  spec.message.cookie = 42;
  spec.message.runs = runs;
  transport.post(spec, done.note(0));
  spec.op = TransferOp::read;
  spec.bytes = Bytes(500'000);
  spec.message = {};
  transport.post(spec, done.note(0));
  CHECK(done.ran.empty());
  loop.run();
  // The argument is the status: ok.
  CHECK(done.ran == std::vector<std::uint64_t>{0, 0, 0});
  CHECK(receiver.cookies == std::vector<std::uint64_t>{42});
  CHECK(receiver.runs == std::vector<std::vector<BlockRun>>{runs});
  CHECK(receiver.landed == std::vector<Bytes>{Bytes(1'000'007)});
  CHECK(transport.wrong_bytes() == 0);
  CHECK(transport.sent() == Bytes(1'500'007));
  CHECK(transport.received() == transport.sent());
  CHECK(trace.of(TraceKind::transfer).size() == 3);
  CHECK(trace.of(TraceKind::transfer)[0].lane == Lane::proactive);
}

TEST_CASE("SocketTransport: bytes that are not the region's are noticed") {
  Records trace;
  WallLoop loop;
  SocketTransport transport(loop, 2, trace);
  transport.register_region(EndpointId(1), RegionId(3), Bytes(1000));  // endpoint 0 holds zeros
  const std::vector<Fragment> piece{{RegionId(3), 0, 1000}};
  Log done;
  TransferSpec spec;
  spec.poster = EndpointId(0);
  spec.peer = EndpointId(1);
  spec.bytes = Bytes(1000);
  spec.fragments = piece;
  transport.post(spec, done.note(0));
  loop.run();
  CHECK(transport.wrong_bytes() > 900);
  spec.bytes = Bytes(999);
  CHECK_THROWS_AS(transport.post(spec, done.note(0)), std::logic_error);
}

}  // namespace kvlane
