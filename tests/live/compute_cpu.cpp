// Compute by kernels on CPU threads: completions, order, errors, and its end while it works.

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "calibrate/live/compute/cpu_compute.h"
#include "tests/live/compute_support.h"

namespace kvlane::live {
namespace {

using namespace literals;
using test::kAllKinds;
using test::work_of;

CpuComputeOptions small() {
  CpuComputeOptions options;
  options.value_bytes = 128 << 20;
  options.result_bytes = 64 << 20;
  options.copied_bytes = 4 << 20;
  return options;
}

struct Bench {
  explicit Bench(const CpuComputeOptions& options = small())
      : compute(std::make_unique<CpuCompute>(loop, std::vector<const CostModel*>{&cost, &cost},
                                             std::vector<GpuId>{GpuId(0U)}, options, &sink)) {}
  Callback note(std::uint64_t number) {
    return {
        [](void* self, std::uint64_t which) { static_cast<Bench*>(self)->told.push_back(which); },
        this, number};
  }

  CostModel cost{test::plain_cpu(), test::shipped_model("smollm2-135m"), 1, false};
  WallLoop loop;
  test::Sink sink;
  std::vector<std::uint64_t> told;
  std::unique_ptr<CpuCompute> compute;
  const GpuId gpu{0U};
};

}  // namespace

TEST_CASE("every kind of work completes once, each stream in the order posted") {
  Bench b;
  std::uint64_t number = 0;
  for (const WorkKind kind : kAllKinds) {
    for (const Stream stream : {Stream::compute, Stream::side}) {
      b.compute->post(b.gpu, stream, work_of(kind), b.note(number++));
    }
  }
  CopySpec copy;
  copy.gpu = b.gpu;
  copy.bytes = Bytes(5'000'001);
  copy.copies = 3;
  b.compute->copy(copy, b.note(number++));
  copy.direction = CopyDirection::device_to_host;
  copy.bytes = Bytes(0);
  b.compute->copy(copy, b.note(number++));
  CHECK(b.told.empty());  // never inside post
  b.loop.run();
  CHECK(b.compute->outstanding() == 0);
  std::vector<std::uint64_t> sorted = b.told;
  std::sort(sorted.begin(), sorted.end());
  REQUIRE(sorted.size() == number);
  for (std::uint64_t i = 0; i < number; ++i) CHECK(sorted[i] == i);

  REQUIRE(b.sink.records.size() == number);
  TimePoint free_at[2] = {};
  std::size_t next[2] = {};
  for (const TraceRecord& record : b.sink.records) {
    CHECK(record.end >= record.begin);
    CHECK(record.end <= b.loop.clock());
    if (record.kind != TraceKind::compute) continue;
    const auto kind = static_cast<WorkKind>(record.detail);
    if (kind == WorkKind::gather_host) {
      CHECK(record.bytes == Bytes(3 << 20));
      CHECK(record.end > record.begin);
      continue;
    }
    const auto stream = static_cast<std::size_t>(record.value);
    CHECK(kind == kAllKinds[next[stream]++]);
    CHECK(record.begin >= free_at[stream]);
    free_at[stream] = record.end;
    if (kind == WorkKind::host_step) CHECK(record.end - record.begin >= 100_us);
  }
  CHECK(next[0] == 11);
  CHECK(next[1] == 11);
  REQUIRE(b.compute->last_selection(b.gpu, LayerId(1U)) != nullptr);
  CHECK(b.compute->last_selection(b.gpu, LayerId(2U)) == nullptr);
  const Selection& selection = *b.compute->last_selection(b.gpu, LayerId(1U));
  CHECK(selection.index.size() == 2 * 3 * 102);
  CHECK(selection.split.size() == selection.index.size());
  CHECK(selection.local_count.size() == 2 * 3);
}

TEST_CASE("a long job of one stream lets the other's short ones through") {
  Bench b;
  Work prefill = work_of(WorkKind::prefill_layer, 1, 1024);
  b.compute->post(b.gpu, Stream::compute, prefill, b.note(0));
  b.compute->post(b.gpu, Stream::compute, prefill, b.note(1));
  b.compute->post(b.gpu, Stream::side, work_of(WorkKind::dequantise), b.note(2));
  b.loop.run();
  REQUIRE(b.told.size() == 3);
  CHECK(b.told.back() == 1);
}

TEST_CASE("the loop's timers run while kernels do") {
  Bench b;
  struct Timer {
    Bench* bench;
    bool busy = false;
  } timer{&b};
  for (int i = 0; i < 4; ++i) {
    b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::prefill_layer, 1, 1024), b.note(1));
  }
  b.loop.schedule_after(1_us, {[](void* context, std::uint64_t) {
                                 auto& t = *static_cast<Timer*>(context);
                                 t.busy = t.bench->told.empty();
                               },
                               &timer, 0});
  b.loop.run();
  CHECK(timer.busy);
  CHECK(b.told.size() == 4);
}

TEST_CASE("destroyed with work queued: no hang, no completion afterwards, the loop is free") {
  Bench b;
  for (int i = 0; i < 50; ++i) {
    b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::prefill_layer, 1, 256), b.note(1));
    b.compute->post(b.gpu, Stream::side, work_of(WorkKind::gather_host), b.note(1));
  }
  b.compute.reset();
  const std::size_t told = b.told.size();
  b.loop.run();  // nothing holds it
  CHECK(b.told.size() == told);
  CHECK(told == 0);
}

TEST_CASE("destroyed from within: what had ended by then is not told either") {
  Bench b;
  b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::dequantise), b.note(1));
  // By then it has ended and the loop has not looked.
  b.loop.schedule_after(
      20_ms,
      {[](void* self, std::uint64_t) { static_cast<Bench*>(self)->compute.reset(); }, &b, 0});
  timespec wait{0, 30'000'000};
  nanosleep(&wait, nullptr);
  b.loop.run();
  CHECK(b.told.empty());
}

TEST_CASE("work beyond the memory is one clear error, at once when it is prepared") {
  CpuComputeOptions options = small();
  options.value_bytes = 32 << 20;
  options.result_bytes = 8 << 20;
  Bench b(options);
  CHECK_THROWS_WITH_AS(
      b.compute->prepare(b.gpu, work_of(WorkKind::decode_head)),
      doctest::Contains("decode_head of SmolLM2-135M (2 sequences, 512 new tokens over 1024) needs "
                        "more operands than 32 MiB of values and 8 MiB of results hold"),
      std::runtime_error);
  b.compute->prepare(b.gpu, work_of(WorkKind::decode_qkv));
  b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::decode_qkv), b.note(1));
  b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::decode_head), b.note(2));
  b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::decode_qkv), b.note(3));
  CHECK_THROWS_AS(b.loop.run(), std::runtime_error);
  b.loop.run();
  CHECK(b.told == std::vector<std::uint64_t>{1, 3});
}

TEST_CASE("streams share little memory: calls wait for each other or are made anew") {
  CpuComputeOptions options = small();
  options.result_bytes = 8 << 20;
  Bench b(options);
  for (int i = 0; i < 12; ++i) {
    b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::prefill_layer, 1, 100 + i),
                    b.note(1));
    b.compute->post(b.gpu, Stream::side, work_of(WorkKind::prefill_layer, 1, 140 + i), b.note(2));
  }
  b.loop.run();
  CHECK(b.told.size() == 24);
}

TEST_CASE("work goes to the processors that were named, and to GPUs of this process") {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CpuComputeOptions options = small();
  for (int i = 0; i < CPU_SETSIZE && options.processors.empty(); ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &allowed)) options.processors.push_back(i);
  }
  Bench b(options);
  b.compute->post(b.gpu, Stream::compute, work_of(WorkKind::decode_qkv), b.note(1));
  b.loop.run();
  CHECK(b.told.size() == 1);
  // The peer's GPU answers for its times only.
  CHECK(b.compute->estimate(GpuId(1U), work_of(WorkKind::decode_qkv)) > Duration::zero());
  CHECK_THROWS_AS(b.compute->post(GpuId(1U), Stream::compute, work_of(WorkKind::select), b.note(2)),
                  std::logic_error);
  options.processors = {CPU_SETSIZE};
  Bench nowhere(options);
  CHECK_THROWS_WITH_AS(nowhere.compute->prepare(nowhere.gpu, work_of(WorkKind::decode_qkv)),
                       doctest::Contains("processor 1024 to compute on; expected 0 to 1023"),
                       std::runtime_error);
}

}  // namespace kvlane::live
