// What a NIC adds: efficiency, message rate, posting cost, SGE splitting, priority.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/net_transport_fixture.h"

namespace kvlane {
namespace {

using namespace literals;

TEST_CASE("efficiency: headers take their share of the line") {
  // 25 Gbit/s * 0.8 = 20 Gbit/s: 1000 B take 400 ns. A slower cable keeps its own rate.
  TransportFixture f;
  NicSpec nic = plain_nic(25_Gbps);
  nic.efficiency = 0.8;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  CHECK(f.transport.path_rate(p, d) == 20_Gbps);
  f.post(0, transfer(TransferOp::write, p, d, 1000));
  f.loop.run();
  CHECK(f.took(0) == 400_ns);

  // Two NICs on one cable: the efficiency counts once.
  const NodeId a = f.topology.add_node("a");
  const NodeId b = f.topology.add_node("b");
  f.topology.add_cable(a, b, 10_Gbps, 0_ns, true);
  const EndpointId ea = f.transport.add_endpoint(a, nic);
  const EndpointId eb = f.transport.add_endpoint(b, nic);
  CHECK(f.transport.path_rate(ea, eb) == 8_Gbps);
}

TEST_CASE("SGE splitting") {
  // Alibaba eRDMA: 6 / 1 / 1 entries for send / receive / read (docs/system.md 4).
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.max_send_sge = 6;
  nic.max_recv_sge = 1;
  nic.max_read_sge = 1;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));  // 30 / 30 / 30
  const auto requests = [&](TransferOp op, EndpointId from, EndpointId to, int segments,
                            int targets) {
    TransferSpec spec = transfer(op, from, to, 1000);
    spec.segments = segments;
    spec.targets = targets;
    return f.transport.work_requests(spec);
  };
  CHECK(requests(TransferOp::write, p, d, 1, 1) == 1);
  CHECK(requests(TransferOp::write, p, d, 6, 1) == 1);
  CHECK(requests(TransferOp::write, p, d, 7, 1) == 2);
  CHECK(requests(TransferOp::write, p, d, 7, 5) == 5);  // each names one remote piece
  CHECK(requests(TransferOp::write_with_imm, p, d, 60, 5) == 10);
  CHECK(requests(TransferOp::send, p, d, 60, 300) == 10);  // 300 / 30 = 10 at the receiver
  CHECK(requests(TransferOp::send, p, d, 60, 301) == 11);
  CHECK(requests(TransferOp::send, d, p, 60, 5) == 5);  // the receiver takes one a message
  CHECK(requests(TransferOp::read, p, d, 5, 1) == 5);
  CHECK(requests(TransferOp::read, d, p, 60, 1) == 2);
  CHECK(requests(TransferOp::read, d, p, 60, 3) == 3);
}

TEST_CASE("the message rate bounds many small pieces") {
  // 7 M messages/s, 3000 work requests of 512 B at 100 Gbit/s: messages 3000 / 7e6 = 428.571 us,
  // bytes 3000 * 512 * 8 / 1e11 = 122.88 us: the messages decide.
  TransportFixture f;
  NicSpec nic = plain_nic(100_Gbps);
  nic.message_rate = 7e6;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  TransferSpec spec = transfer(TransferOp::write, p, d, 3000 * 512);
  spec.segments = spec.targets = 3000;
  f.post(0, spec);
  f.loop.run();
  CHECK(to_seconds(f.took(0)) == doctest::Approx(3000 / 7e6).epsilon(1e-9));

  // One piece of the same bytes: the line decides.
  spec.segments = spec.targets = 1;
  const TimePoint begin = f.loop.now();
  f.post(1, spec);
  f.loop.run();
  CHECK(f.done[1] - begin == Duration(122'880'000));

  // Messages without bytes take their time as well: 7000 of them 1 ms.
  spec.bytes = Bytes(0);
  spec.targets = 7000;
  const TimePoint again = f.loop.now();
  f.post(2, spec);
  f.loop.run();
  CHECK(f.done[2] - again == 1_ms);
}

TEST_CASE("the message rate belongs to the queue pair, not to the transfer") {
  // Two transfers of 1000 messages on one queue pair take 2000 / rate; on two lanes they overlap.
  TransportFixture f;
  NicSpec nic = plain_nic(100_Gbps);
  nic.message_rate = 1e6;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  TransferSpec spec = transfer(TransferOp::write, p, d, 8000);
  spec.segments = spec.targets = 1000;
  f.post(0, spec);
  f.post(1, spec);
  spec.lane = Lane::speculative;
  f.post(2, spec);
  f.loop.run();
  CHECK(to_seconds(f.took(0)) == doctest::Approx(1e-3).epsilon(1e-9));
  CHECK(to_seconds(f.took(1)) == doctest::Approx(2e-3).epsilon(1e-9));
  CHECK(to_seconds(f.took(2)) == doctest::Approx(1e-3).epsilon(1e-9));
}

TEST_CASE("posting costs CPU time, one post at a time an endpoint") {
  // Doorbell 500 ns, descriptor 100 ns. First: 3 work requests = 800 ns, then 1000 B at 1 B/ns.
  // Second, on another lane and to the same peer: its CPU time starts at 800: 1400 ns.
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.per_doorbell = 500_ns;
  nic.per_message = 100_ns;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  TransferSpec spec = transfer(TransferOp::write, p, d, 1000);
  spec.segments = 90;
  f.post(0, spec);
  f.post(1, transfer(TransferOp::write, p, d, 100, Lane::control));
  f.loop.run();
  CHECK(f.took(1) == 1500_ns);
  // 600 B by 1400 ns, 100 ns stand still for control, the other 400 B.
  CHECK(f.took(0) == 1900_ns);
}

TEST_CASE("lanes over NICs with and without priority") {
  // on_demand 1000 B and speculative 1000 B at once over 1 B/ns.
  for (const bool priority : {true, false}) {
    TransportFixture f;
    NicSpec nic = plain_nic(8_Gbps);
    nic.lane_priority = priority;
    const EndpointId p = f.endpoint("p", nic);
    const EndpointId d = f.endpoint("d", nic);
    CHECK(f.transport.limits(p).lane_priority == priority);
    f.post(0, transfer(TransferOp::write, p, d, 1000, Lane::speculative));
    f.post(1, transfer(TransferOp::write, p, d, 1000, Lane::on_demand));
    f.loop.run();
    CHECK(f.took(1) == (priority ? 1000_ns : 2000_ns));
    CHECK(f.took(0) == 2000_ns);
  }
}

TEST_CASE("incast: six posters share the port of one") {
  // 6 * 1 MB into 24 Gbit/s: 4 Gbit/s each, 2 ms; the uplinks have 32 Gbit/s.
  TransportFixture f;
  const EndpointId d = f.endpoint("d", plain_nic(24_Gbps));
  for (std::uint64_t i = 0; i < 6; ++i) {
    const EndpointId p = f.endpoint(fmt::format("p{}", i), plain_nic(32_Gbps));
    f.post(i, transfer(TransferOp::write, p, d, 1'000'000));
  }
  f.loop.run();
  for (std::uint64_t i = 0; i < 6; ++i) CHECK(f.took(i) == 2_ms);
}

}  // namespace
}  // namespace kvlane
