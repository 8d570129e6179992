// Sums and times from records of a trace.

#include <doctest/doctest.h>

#include "sim/metrics/collector.h"

namespace kvlane {
namespace {

using namespace literals;

TimePoint at(std::int64_t us) { return TimePoint(Duration(us * 1'000'000)); }

TraceRecord mark(TraceKind kind, std::uint32_t request, std::int64_t us,
                 std::int32_t iteration = -1, std::int64_t value = 0, std::int64_t bytes = 0) {
  TraceRecord r;
  r.kind = kind;
  r.request = RequestId(request);
  r.begin = r.end = at(us);
  r.iteration = iteration;
  r.value = value;
  r.bytes = Bytes(bytes);
  return r;
}

TraceRecord transfer(Lane lane, std::int64_t begin, std::int64_t end, std::int64_t bytes,
                     bool metadata = false) {
  TraceRecord r = mark(TraceKind::transfer, 0, begin, -1, 0, bytes);
  r.end = at(end);
  r.lane = lane;
  r.metadata = metadata;
  r.source = EndpointId(0);
  r.destination = EndpointId(1);
  return r;
}

// Milestones of a request whose KV is there at 500.
void life(MetricsCollector& m, std::uint32_t request) {
  m.record(mark(TraceKind::arrived, request, 0));
  m.record(mark(TraceKind::prefill_started, request, 10));
  m.record(mark(TraceKind::layer_handed_over, request, 60));
  m.record(mark(TraceKind::prefill_finished, request, 100));
  m.record(mark(TraceKind::token, request, 100, 1));
  m.record(mark(TraceKind::layer_handed_over, request, 120));
  m.record(mark(TraceKind::mandatory_arrived, request, 500));
  m.record(mark(TraceKind::joined, request, 600));
  m.record(mark(TraceKind::token, request, 700, 2));
}

Bandwidth line(EndpointId, EndpointId) { return 8_Gbps; }
Duration latency(EndpointId, EndpointId) { return 3_us; }

}  // namespace

TEST_CASE("collector: bytes by lane, metadata apart, the transfer from first to last byte of KV") {
  MetricsCollector m(1);
  m.record(transfer(Lane::control, 1, 2, 64));
  m.record(transfer(Lane::proactive, 20, 40, 1000));
  m.record(transfer(Lane::proactive, 30, 50, 70, true));
  m.record(transfer(Lane::on_demand, 200, 210, 500));
  m.record(transfer(Lane::speculative, 190, 260, 300));
  m.record(transfer(Lane::control, 900, 901, 64));
  CHECK(m.lane_bytes()[index(Lane::control)] == 128_B);
  CHECK(m.lane_bytes()[index(Lane::proactive)] == 1000_B);
  CHECK(m.lane_bytes()[index(Lane::on_demand)] == 500_B);
  CHECK(m.lane_bytes()[index(Lane::speculative)] == 300_B);
  CHECK(m.metadata_bytes() == 70_B);
  CHECK(m.transfer_time() == 240_us);
  CHECK(MetricsCollector(1).transfer_time() == 0_us);
}

TEST_CASE("collector: milestones become times; the last layer counts as the hand-over") {
  MetricsCollector m(1);
  life(m, 0);
  const RequestTimes t = m.request_times(line, latency).at(0);
  CHECK(t.prefill_started == at(10));
  CHECK(t.handed_over == at(120));
  CHECK(t.data_ready == at(500));
  CHECK(t.joined == at(600));
  CHECK(t.ttst() == 600_us);
  CHECK(t.wire_alone == 0_us);  // nothing was on its way
  CHECK(m.end() == at(700));
}

TEST_CASE("collector: wire alone is what was still missing at hand-over, at line rate") {
  MetricsCollector m(1);
  life(m, 0);
  m.record(transfer(Lane::proactive, 50, 110, 99'000));   // there by then
  m.record(transfer(Lane::proactive, 100, 180, 40'000));  // 60 of 80 us left: 30 kB
  m.record(transfer(Lane::proactive, 180, 400, 20'000));
  m.record(transfer(Lane::speculative, 300, 400, 5'000));  // nobody waits for it
  m.record(transfer(Lane::proactive, 450, 520, 7'000));    // arrives after the start
  // 50 kB at 1 B/ns, and the way.
  CHECK(m.request_times(line, latency).at(0).wire_alone == 50_us + 3_us);
}

TEST_CASE("collector: on-demand ratio pools requests step by step") {
  MetricsCollector m(2);
  m.record(mark(TraceKind::selection, 0, 1, 0, 100, 80));
  m.record(mark(TraceKind::selection, 1, 1, 0, 300, 20));
  m.record(mark(TraceKind::selection, 0, 2, 1, 50, 0));
  m.record(mark(TraceKind::selection, 1, 2, 2, 0, 0));
  CHECK(m.on_demand_ratio() == std::vector<double>{0.25, 0.0, 0.0});
}

TEST_CASE("collector: local after the step at which the last request has everything") {
  MetricsCollector m(2);
  m.record(mark(TraceKind::local_blocks, 0, 1, 0, 10, 20));
  m.record(mark(TraceKind::local_blocks, 0, 2, 1, 20, 20));
  CHECK(!m.local_after().has_value());  // request 1 never
  m.record(mark(TraceKind::local_blocks, 1, 9, 4, 20, 20));
  CHECK(m.local_after() == 5);  // steps count from 1
}

TEST_CASE("collector: tokens out of order and requests without a second token are refused") {
  MetricsCollector m(1);
  m.record(mark(TraceKind::token, 0, 1, 1));
  CHECK_THROWS_AS(m.request_times(line, latency), std::logic_error);
  CHECK_THROWS_AS(m.record(mark(TraceKind::token, 0, 2, 3)), std::logic_error);
}

TEST_CASE("collector: passes records on, and its hash sees every field that matters") {
  struct Count final : TraceSink {
    int n = 0;
    void record(const TraceRecord&) override { ++n; }
  } next;
  const auto hash = [&](auto change) {
    MetricsCollector m(2, &next);
    TraceRecord r = transfer(Lane::proactive, 20, 40, 1000);
    change(r);
    m.record(r);
    return m.hash();
  };
  const std::uint64_t base = hash([](TraceRecord&) {});
  CHECK(base == hash([](TraceRecord&) {}));
  CHECK(base != hash([](TraceRecord& r) { r.end += Duration(1); }));
  CHECK(base != hash([](TraceRecord& r) { r.begin += Duration(1); }));
  CHECK(base != hash([](TraceRecord& r) { r.bytes += Bytes(1); }));
  CHECK(base != hash([](TraceRecord& r) { r.lane = Lane::speculative; }));
  CHECK(base != hash([](TraceRecord& r) { r.request = RequestId(1); }));
  CHECK(base != hash([](TraceRecord& r) { r.layer = LayerId(1); }));
  CHECK(base != hash([](TraceRecord& r) { r.value = 7; }));
  CHECK(base != hash([](TraceRecord& r) { r.iteration = 7; }));
  CHECK(next.n == 10);
}

}  // namespace kvlane
