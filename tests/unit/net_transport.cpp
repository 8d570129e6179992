// The life of a transfer: order, completion, messages, reads, GPU memory, cancelling, trace.

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/unit/net_transport_fixture.h"

namespace kvlane {
namespace {

using namespace literals;

TEST_CASE("a write completes after bytes / rate + latency, and tells the peer nothing") {
  // 8 Gbit/s: 1000 B take 1000 ns; cables 2 * 100 ns, NICs 300 ns.
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.latency = 300_ns;
  const EndpointId p = f.endpoint("p", nic, 100_ns);
  const EndpointId d = f.endpoint("d", nic, 100_ns);
  CHECK(f.transport.path_latency(p, d) == 500_ns);
  CHECK(f.transport.path_rate(p, d) == 8_Gbps);
  f.post(0, transfer(TransferOp::write, p, d, 1000));
  CHECK(f.done[0] == kNever);
  f.loop.run();
  CHECK(f.took(0) == 1500_ns);
  CHECK(f.status[0] == TransferStatus::ok);
  CHECK(f.arrivals.empty());
}

TEST_CASE("two different NICs bring half of their latency each") {
  TransportFixture f;
  NicSpec slow = plain_nic(8_Gbps);
  slow.latency = 700_ns;
  NicSpec fast = plain_nic(8_Gbps);
  fast.latency = 300_ns;
  const EndpointId p = f.endpoint("p", slow);
  const EndpointId d = f.endpoint("d", fast);
  CHECK(f.transport.path_latency(p, d) == 500_ns);
  CHECK(f.transport.path_latency(d, p) == 500_ns);
}

TEST_CASE("a read costs one latency for the request, then data and latency") {
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.latency = 500_ns;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  f.post(0, transfer(TransferOp::read, d, p, 1000));
  f.loop.run();
  CHECK(f.took(0) == 2000_ns);
  // The bytes leave the peer.
  REQUIRE(f.records.size() == 1);
  CHECK(f.records[0].source == p);
  CHECK(f.records[0].destination == d);
  CHECK(f.records[0].begin == TimePoint(500_ns));
}

TEST_CASE("a message follows its data, and its runs are copied at post") {
  TransportFixture f;
  const EndpointId p = f.endpoint("p", plain_nic(8_Gbps));
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));
  std::vector<BlockRun> runs = {{1, 2, 3}, {4, 5, 6}};
  TransferSpec spec = transfer(TransferOp::write_with_imm, p, d, 1000);
  spec.message.cookie = 42;
  spec.message.runs = runs;
  f.post(0, spec);
  const std::vector<BlockRun> expected = runs;
  runs.assign(2, BlockRun{});
  f.loop.run();
  REQUIRE(f.arrivals.size() == 1);
  CHECK(f.arrivals[0].at == TimePoint(1000_ns));
  CHECK(f.arrivals[0].from == p);
  CHECK(f.arrivals[0].cookie == 42);
  CHECK(f.arrivals[0].runs == expected);
}

TEST_CASE("messages of a lane arrive in the order posted and never overtake data") {
  // 3000 B of data, then an empty message, then 10 B: at 3000, 3000, 3010 ns. Another lane is free
  // to overtake: control ends first, in 100 ns, and delays the others by that much.
  TransportFixture f;
  const EndpointId p = f.endpoint("p", plain_nic(8_Gbps));
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));
  f.post(0, transfer(TransferOp::write, p, d, 3000));
  for (std::uint64_t i = 1; i <= 2; ++i) {
    TransferSpec spec = transfer(TransferOp::write_with_imm, p, d, i == 1 ? 0 : 10);
    spec.message.cookie = i;
    f.post(i, spec);
  }
  TransferSpec control = transfer(TransferOp::send, p, d, 100, Lane::control);
  control.message.cookie = 3;
  f.post(3, control);
  f.loop.run();
  REQUIRE(f.arrivals.size() == 3);
  CHECK(f.arrivals[0].cookie == 3);
  CHECK(f.arrivals[1].cookie == 1);
  CHECK(f.arrivals[2].cookie == 2);
  CHECK(f.took(3) == 100_ns);
  CHECK(f.took(0) == 3100_ns);
  CHECK(f.took(1) == 3100_ns);
  CHECK(f.took(2) == 3110_ns);
}

TEST_CASE(
    "latency is pipelined: the next transfer leaves when the last byte of the first has left") {
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.latency = 10_us;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  f.post(0, transfer(TransferOp::write, p, d, 1000));
  f.post(1, transfer(TransferOp::write, p, d, 1000));
  f.loop.run();
  CHECK(f.took(0) == 11_us);
  CHECK(f.took(1) == 12_us);
}

TEST_CASE("GPU memory puts the PCIe direction of that GPU on the path") {
  // NICs 8 Gbit/s, H2D of the GPU 4 Gbit/s: 1000 B take 2000 ns into GPU memory. Reading back over
  // D2H at 2 Gbit/s takes 4000 ns.
  TransportFixture f;
  const EndpointId p = f.endpoint("p", plain_nic(8_Gbps));
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));
  const LinkId h2d = f.network.add_link("h2d", 4_Gbps);
  const LinkId d2h = f.network.add_link("d2h", 2_Gbps);
  f.transport.attach_gpu(GpuId(3), h2d, d2h);
  TransferSpec spec = transfer(TransferOp::write, p, d, 1000);
  spec.remote_memory = MemoryKind::gpu;
  spec.remote_gpu = GpuId(3);
  f.post(0, spec);
  f.loop.run();
  CHECK(f.took(0) == 2000_ns);
  CHECK(f.network.usage(h2d).bytes[index(Lane::proactive)] == Bytes(1000));
  spec.op = TransferOp::read;
  f.post(1, spec);
  f.loop.run();
  CHECK(f.took(1) == 6000_ns);
  CHECK(f.network.usage(d2h).bytes[index(Lane::proactive)] == Bytes(1000));
  spec.remote_gpu = GpuId(1);
  CHECK_THROWS_AS(f.post(2, spec), std::logic_error);
}

TEST_CASE("a NIC without GPUDirect refuses GPU memory") {
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.gpu_direct = false;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));
  f.transport.attach_gpu(GpuId(0), f.network.add_link("h2d", 4_Gbps),
                         f.network.add_link("d2h", 4_Gbps));
  TransferSpec spec = transfer(TransferOp::write, p, d, 1000);
  spec.local_memory = MemoryKind::gpu;
  spec.local_gpu = GpuId(0);
  CHECK_THROWS_AS(f.post(0, spec), std::logic_error);
  CHECK_FALSE(f.transport.limits(p).gpu_direct);
}

TEST_CASE("cancel: in flight, waiting, too late; each still completes once") {
  TransportFixture f;
  NicSpec nic = plain_nic(8_Gbps);
  nic.latency = 100_ns;
  const EndpointId p = f.endpoint("p", nic);
  const EndpointId d = f.endpoint("d", nic);
  const TransferId first = f.post(0, transfer(TransferOp::write, p, d, 1000));
  const TransferId second = f.post(1, transfer(TransferOp::write, p, d, 1000));
  const TransferId third = f.post(2, transfer(TransferOp::write_with_imm, p, d, 1000));
  f.post(3, transfer(TransferOp::write_with_imm, p, d, 1000));
  f.run_to(1050_ns);
  CHECK_FALSE(f.transport.cancel(first));  // in its latency
  CHECK(f.transport.cancel(third));        // waiting
  CHECK_FALSE(f.transport.cancel(third));
  f.run_to(1500_ns);
  CHECK(f.transport.cancel(second));  // half of it has passed
  f.loop.run();
  CHECK(f.status[0] == TransferStatus::ok);
  CHECK(f.status[1] == TransferStatus::cancelled);
  CHECK(f.took(1) == 1500_ns);
  CHECK(f.status[2] == TransferStatus::cancelled);
  CHECK(f.took(2) == 1050_ns);
  CHECK(f.status[3] == TransferStatus::ok);
  CHECK(f.took(3) == 2600_ns);  // 1500 + 1000 + latency
  CHECK(f.arrivals.size() == 1);
  CHECK_FALSE(f.transport.cancel(TransferId{}));
  // Bytes on the wire: 1000 + 500 + 1000; the trace says the same.
  std::int64_t traced = 0;
  for (const TraceRecord& r : f.records) traced += r.bytes.count();
  CHECK(traced == 2500);
}

TEST_CASE("one trace record a transfer") {
  TransportFixture f;
  const EndpointId p = f.endpoint("p", plain_nic(8_Gbps));
  const EndpointId d = f.endpoint("d", plain_nic(8_Gbps));
  TransferSpec spec = transfer(TransferOp::send, p, d, 1000, Lane::on_demand);
  spec.segments = 61;
  spec.request = RequestId(5);
  spec.message.layer = LayerId(7);
  spec.message.iteration = 2;
  const TransferId id = f.post(0, spec);
  f.loop.run();
  REQUIRE(f.records.size() == 1);
  const TraceRecord& r = f.records[0];
  CHECK(r.kind == TraceKind::transfer);
  CHECK(r.lane == Lane::on_demand);
  CHECK(r.detail == static_cast<std::uint8_t>(TransferOp::send));
  CHECK(r.begin == TimePoint(0_ns));
  CHECK(r.end == TimePoint(1000_ns));
  CHECK(r.request == RequestId(5));
  CHECK(r.layer == LayerId(7));
  CHECK(r.iteration == 2);
  CHECK(r.source == p);
  CHECK(r.destination == d);
  CHECK(r.bytes == Bytes(1000));
  CHECK(r.value == 3);  // ceil(61 / 30)
  CHECK(r.flow == id.value);
}

}  // namespace
}  // namespace kvlane
