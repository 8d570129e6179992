// Streams, copies and gathers over the virtual clock.

#include <doctest/doctest.h>

#include <vector>

#include "gpu_support.h"
#include "sim/des/virtual_loop.h"
#include "sim/gpu/sim_compute.h"

using namespace kvlane;
using namespace kvlane::test;
using namespace kvlane::literals;

namespace {

struct Sink final : TraceSink {
  std::vector<TraceRecord> records;
  void record(const TraceRecord& record) override { records.push_back(record); }
};

struct World {
  explicit World(bool concurrent = true) : concurrent_(concurrent) {}
  bool concurrent_;
  VirtualLoop loop;
  FluidNetwork network{loop};
  Sink sink;
  SimCompute compute{loop, network, &sink};
  CostModel cost{spec(), round_model(), 1, false};
  GpuSpec spec() const {
    GpuSpec made = round_gpu();
    made.concurrent_streams = concurrent_;
    return made;
  }
  LinkId host = network.add_link("host memory", Bandwidth::gbyte_per_sec(100), false);
  LinkId h2d = network.add_link("h2d", Bandwidth::gbyte_per_sec(10), false);
  LinkId d2h = network.add_link("d2h", Bandwidth::gbyte_per_sec(10), false);
  GpuId gpu = compute.add_gpu(cost, h2d, d2h, host);

  struct Done {
    World* world;
    std::vector<std::pair<std::uint64_t, TimePoint>> list;
  } done{this, {}};
  Callback note(std::uint64_t number) {
    return {[](void* context, std::uint64_t argument) {
              auto* self = static_cast<Done*>(context);
              self->list.emplace_back(argument, self->world->loop.now());
            },
            &done, number};
  }
};

const Work kStep{.kind = WorkKind::host_step};  // 1 ms

CopySpec copy_of(CopyDirection direction, GpuId gpu, std::int64_t bytes, std::int64_t copies) {
  CopySpec spec;
  spec.direction = direction;
  spec.gpu = gpu;
  spec.bytes = Bytes(bytes);
  spec.copies = copies;
  return spec;
}

}  // namespace

TEST_CASE("SimCompute: a stream works in order, two streams beside each other") {
  World w;
  w.compute.post(w.gpu, Stream::compute, kStep, w.note(1));
  w.compute.post(w.gpu, Stream::compute, kStep, w.note(2));
  w.compute.post(w.gpu, Stream::side, kStep, w.note(3));
  CHECK(w.done.list.empty());  // never inside post
  w.loop.run();
  REQUIRE(w.done.list.size() == 3);
  CHECK(w.done.list[0] == std::pair(std::uint64_t{1}, TimePoint(1_ms)));
  CHECK(w.done.list[1] == std::pair(std::uint64_t{3}, TimePoint(1_ms)));
  CHECK(w.done.list[2] == std::pair(std::uint64_t{2}, TimePoint(2_ms)));
  CHECK(w.compute.busy(w.gpu) == 2_ms);
  CHECK(w.sink.records[1].begin == TimePoint(1_ms));
  CHECK(w.sink.records[1].end == TimePoint(2_ms));
}

TEST_CASE(
    "SimCompute: on a CPU both streams take turns, and what its processors do beside holds up") {
  World w(false);
  w.compute.post(w.gpu, Stream::compute, kStep, w.note(1));
  w.compute.post(w.gpu, Stream::side, kStep, w.note(2));
  w.compute.post(w.gpu, Stream::compute, kStep, w.note(3));
  // 10 us, then 1 MB at 10 GB/s: 110 us of the first piece.
  w.compute.copy(copy_of(CopyDirection::host_to_device, w.gpu, 1'000'000, 1), w.note(4));
  w.loop.schedule_at(TimePoint(1500_us), {[](void* world, std::uint64_t) {
                                            auto& at = *static_cast<World*>(world);
                                            at.compute.hold_up(at.gpu, 300_us);
                                            CHECK(at.compute.busy(at.gpu) == 1500_us);
                                          },
                                          &w, 0});
  w.loop.run();
  REQUIRE(w.done.list.size() == 4);
  CHECK(w.done.list[0] == std::pair(std::uint64_t{4}, TimePoint(110_us)));
  CHECK(w.done.list[1] == std::pair(std::uint64_t{1}, TimePoint(1110_us)));
  CHECK(w.done.list[2] == std::pair(std::uint64_t{2}, TimePoint(2410_us)));
  CHECK(w.done.list[3] == std::pair(std::uint64_t{3}, TimePoint(3410_us)));
  CHECK(w.compute.busy(w.gpu) == 3410_us);
  w.compute.hold_up(w.gpu, 1_ms);  // nothing runs: nothing is late
  w.compute.post(w.gpu, Stream::side, kStep, w.note(5));
  w.loop.run();
  CHECK(w.done.list.back() == std::pair(std::uint64_t{5}, TimePoint(4410_us)));
  CHECK(w.sink.records.back().begin == TimePoint(3410_us));
}

TEST_CASE("SimCompute: a copy costs its launches, then its bytes over the slowest link") {
  World w;
  // 3 launches x 10 us, then 1 MB at 10 GB/s = 100 us.
  w.compute.copy(copy_of(CopyDirection::host_to_device, w.gpu, 1'000'000, 3), w.note(1));
  // The other direction has an engine of its own.
  w.compute.copy(copy_of(CopyDirection::device_to_host, w.gpu, 1'000'000, 1), w.note(2));
  // The same direction: after the first.
  w.compute.copy(copy_of(CopyDirection::host_to_device, w.gpu, 500'000, 1), w.note(3));
  w.loop.run();
  REQUIRE(w.done.list.size() == 3);
  CHECK(w.done.list[0] == std::pair(std::uint64_t{2}, TimePoint(110_us)));
  CHECK(w.done.list[1] == std::pair(std::uint64_t{1}, TimePoint(130_us)));
  CHECK(w.done.list[2] == std::pair(std::uint64_t{3}, TimePoint(190_us)));
  CHECK(w.sink.records.back().kind == TraceKind::copy);
  CHECK(w.sink.records.back().begin == TimePoint(130_us));
  CHECK(w.sink.records.back().bytes == Bytes(500'000));
}

TEST_CASE("SimCompute: copies of two GPUs share the host's memory") {
  World w;
  w.network.set_capacity(w.host, Bandwidth::gbyte_per_sec(10));
  const LinkId other = w.network.add_link("h2d of the second", Bandwidth::gbyte_per_sec(10), false);
  const GpuId second = w.compute.add_gpu(w.cost, other, w.d2h, w.host);
  w.compute.copy(copy_of(CopyDirection::host_to_device, w.gpu, 1'000'000, 1), w.note(1));
  w.compute.copy(copy_of(CopyDirection::host_to_device, second, 1'000'000, 1), w.note(2));
  w.loop.run();
  // 5 GB/s each: 10 us + 200 us.
  CHECK(w.done.list[0].second == TimePoint(210_us));
  CHECK(w.done.list[1].second == TimePoint(210_us));
}

TEST_CASE("SimCompute: gather_host waits for no stream and moves its bytes twice") {
  World w;
  w.compute.post(w.gpu, Stream::compute, kStep, w.note(1));
  Work gather{.kind = WorkKind::gather_host};
  gather.bytes = Bytes(2'000'000);  // at 20 GB/s of rows: 100 us
  w.compute.post(w.gpu, Stream::compute, gather, w.note(2));
  w.compute.post(w.gpu, Stream::compute, gather, w.note(3));  // one at a time
  w.loop.run();
  CHECK(w.done.list[0] == std::pair(std::uint64_t{2}, TimePoint(100_us)));
  CHECK(w.done.list[1] == std::pair(std::uint64_t{3}, TimePoint(200_us)));
  Bytes carried{0};
  for (const Bytes bytes : w.network.usage(w.host).bytes) carried += bytes;
  CHECK(carried == Bytes(8'000'000));
  CHECK(w.compute.busy(w.gpu) == 1_ms);
  // 2 MB a gather over a host memory of 10 GB/s: 400 us.
  w.network.set_capacity(w.host, Bandwidth::gbyte_per_sec(10));
  w.compute.post(w.gpu, Stream::compute, gather, w.note(4));
  const TimePoint start = w.loop.now();
  w.loop.run();
  CHECK(w.done.list.back().second - start == 400_us);
}

TEST_CASE("SimCompute: work of nothing completes at once, from the loop") {
  World w;
  Work none{.kind = WorkKind::prefill_layer, .layer = LayerId(0)};
  w.compute.post(w.gpu, Stream::compute, none, w.note(1));
  CHECK(w.done.list.empty());
  w.loop.run();
  CHECK(w.done.list.at(0).second == TimePoint{});
}

TEST_CASE("SimCompute: known durations are those of the model, whatever is asked between") {
  World w;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 1; n < 6000; n += 7) {
      Work work{.kind = WorkKind::decode_attention, .layer = LayerId(n % 4), .batch = 1 + n % 3};
      work.attended_rows = n * 1000;
      work.kv_bits = n % 2 == 0 ? 16 : 8;
      REQUIRE(w.compute.estimate(w.gpu, work) == w.cost.duration(work));
    }
    Work gather{.kind = WorkKind::gather_host};
    for (std::int64_t n = 1; n < 50; ++n) {
      gather.bytes = Bytes(n * 1'000'000);
      REQUIRE(w.compute.estimate(w.gpu, gather) == w.cost.duration(gather));
    }
  }
}

TEST_CASE("SimCompute: busy counts up to now only") {
  World w;
  w.compute.post(w.gpu, Stream::compute, kStep, {});
  w.loop.schedule_at(TimePoint(300_us), w.note(1));
  while (w.done.list.empty()) w.loop.run_one();
  CHECK(w.compute.busy(w.gpu) == 300_us);
}
