// Modelled compute on the wall clock does what the simulator does on its own.

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "calibrate/live/compute/modeled_compute.h"
#include "calibrate/live/loop/wall_loop.h"
#include "sim/des/virtual_loop.h"
#include "sim/run/world.h"
#include "tests/live/compute_support.h"
#include "tests/support/round_scenario.h"

namespace kvlane::live {
namespace {

using namespace literals;

// 2 prefill instances of one GPU, one decode instance.
Scenario scenario() {
  Scenario s = kvlane::test::round_scenario(2, 2, Bandwidth::gbit_per_sec(8), {2e-3, 1e-3, 3e-3});
  for (InstanceGroup& group : s.instances) {
    group.gpu.pcie_h2d = group.gpu.pcie_d2h = Bandwidth::gbyte_per_sec(1);
    group.gpu.pcie_copy = 100_us;
    group.gpu.host_memory = Bandwidth::gbit_per_sec(12);
    group.gpu.host_gather_bandwidth = 5e8;
  }
  return s;
}

// Chains of work on both streams, copies both ways and gathers beside each other, from completions.
struct Driver {
  EventLoop& loop;
  Compute& compute;
  std::vector<std::pair<std::uint64_t, TimePoint>> told{};
  int left = 3;

  void start() { loop.schedule_at(TimePoint(1_ms), call<&Driver::round>(0)); }
  template <void (Driver::*F)(std::uint64_t)>
  Callback call(std::uint64_t argument) {
    return {[](void* self, std::uint64_t number) { (static_cast<Driver*>(self)->*F)(number); },
            this, argument};
  }
  void tell(std::uint64_t number) { told.emplace_back(number, loop.now()); }
  void round(std::uint64_t) {
    if (left-- == 0) return;
    const auto gpu = GpuId(static_cast<std::uint32_t>(left));
    Work prefill;
    prefill.kind = WorkKind::prefill_layer;
    prefill.layer = LayerId(0U);
    prefill.batch = 1;
    prefill.new_tokens = prefill.context_tokens = 100;
    Work step;
    step.kind = WorkKind::host_step;
    Work gather;
    gather.kind = WorkKind::gather_host;
    gather.bytes = Bytes(1'000'000);
    CopySpec copy;
    copy.gpu = gpu;
    copy.bytes = Bytes(2'000'000);
    copy.copies = 2;
    compute.post(gpu, Stream::compute, prefill, call<&Driver::tell>(1));
    compute.post(gpu, Stream::side, step, call<&Driver::tell>(2));
    compute.post(gpu, Stream::side, gather, call<&Driver::tell>(3));
    compute.copy(copy, call<&Driver::tell>(4));
    copy.direction = CopyDirection::device_to_host;
    compute.copy(copy, call<&Driver::tell>(5));
    compute.post(gpu, Stream::compute, step, call<&Driver::round>(0));
  }
};

struct Outcome {
  std::vector<TraceRecord> records;
  std::vector<std::pair<std::uint64_t, TimePoint>> told;
};

}  // namespace

TEST_CASE("modelled compute ends everything at the moment at which the simulator does") {
  const Scenario s = scenario();
  const auto models = make_cost_models(s);
  Outcome virtual_world, live;
  {
    test::Sink sink;
    SimWorld world(s, models, {}, sink);
    Driver driver{world.loop(), world.compute()};
    driver.start();
    world.loop().run();
    virtual_world = {sink.records, driver.told};
  }
  {
    test::Sink sink;
    WallLoop loop;
    ModeledCompute compute(loop, s, models, &sink);
    loop.start_clock(std::chrono::steady_clock::now() + std::chrono::milliseconds(2));
    Driver driver{loop, compute};
    driver.start();
    loop.run();
    CHECK(loop.clock() >= driver.told.back().second);  // it did wait
    live = {sink.records, driver.told};
  }
  REQUIRE(virtual_world.told.size() == 15);
  CHECK(live.told == virtual_world.told);
  REQUIRE(live.records.size() == virtual_world.records.size());
  for (std::size_t i = 0; i < live.records.size(); ++i) {
    const TraceRecord &a = live.records[i], &b = virtual_world.records[i];
    CHECK(a.kind == b.kind);
    CHECK(a.detail == b.detail);
    CHECK(a.begin == b.begin);
    CHECK(a.end == b.end);
    CHECK(a.gpu == b.gpu);
    CHECK(a.value == b.value);
    CHECK(a.bytes == b.bytes);
  }
}

TEST_CASE("GPUs are numbered over the instances, and a group's share its model") {
  Scenario s = scenario();
  s.instances[0].gpus = 2;
  const auto models = make_cost_models(s);
  const std::vector<const CostModel*> by_gpu = gpu_models(s, models);
  REQUIRE(by_gpu.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) CHECK(by_gpu[i] == models[0].get());
  CHECK(by_gpu[4] == models[1].get());
  WallLoop loop;
  const ModeledCompute compute(loop, s, models, nullptr);
  Work step;
  step.kind = WorkKind::host_step;
  CHECK(compute.estimate(GpuId(4U), step) == 3_ms);
}

}  // namespace kvlane::live
