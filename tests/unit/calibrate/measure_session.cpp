// A session on a device whose times the tests know.

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/fit/ceilings.h"
#include "calibrate/measure/grid.h"
#include "calibrate/measure/session.h"
#include "sim/gpu/kernel_work.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

// 100 GFLOP/s and 10 GB/s, whichever takes longer; operands of at most `room` bytes.
class FakeDevice final : public Device {
 public:
  explicit FakeDevice(double room = 1e12) : room_(room) {}
  Machine machine() const override { return {"fake-x2", "Linux 0", "fixed", 2, 1 << 30, 1 << 20}; }
  bool is_cpu() const override { return true; }
  const char* gemm_dtype() const override { return "fp32"; }
  std::string library(const std::string& kernel) const override {
    return kernel == "gemm" ? "blas" : "kernels";
  }
  Call prepare(const Sample& shape) override {
    if (shape.kernel == refuses) throw std::runtime_error("no library");
    const KernelWork work = kernel_work(shape).value();
    if (work.bytes > room_) return {};
    seconds_ = std::max(work.flops / 100e9, work.bytes / 10e9);
    ++prepared;
    return [this] { ++calls; };
  }
  double run(const Call& call) override {
    call();
    if (calls == breaks) throw std::runtime_error("an illegal address");
    clock += seconds_;
    return seconds_;
  }
  void flush() override { ++flushes; }

  int prepared = 0, calls = 0, flushes = 0;
  int breaks = 0;       // the call that throws, and all after it
  std::string refuses;  // a kernel that cannot be prepared
  double clock = 0;

 private:
  double room_, seconds_ = 0;
};

SessionOptions options_of(FakeDevice& device) {
  SessionOptions options;
  options.commit = "abc";
  options.stopped = [] { return false; };
  options.now = [&device] { return device.clock; };
  return options;
}

Sample shape_of(const char* kernel, std::vector<std::int64_t> shape, const char* dtype = "fp32") {
  Sample sample;
  sample.kernel = kernel;
  sample.shape = std::move(shape);
  sample.dtype = dtype;
  return sample;
}

}  // namespace

TEST_CASE("session: samples carry the machine, its state and the quartiles") {
  FakeDevice device;
  SessionOptions options = options_of(device);
  options.load_average = 0.25;
  options.problem = "measured under load: 3 above 1";
  const SessionResult result =
      measure_shapes(device, {shape_of("gemm", {1000, 1000, 1000})}, options);
  REQUIRE(result.samples.size() == 1);
  const Sample& sample = result.samples[0];
  CHECK(sample.machine == "fake-x2");
  CHECK(sample.source == "measured by kvlane abc");
  CHECK(is_own(sample));
  CHECK(sample.variant == "blas");
  CHECK(sample.seconds == doctest::Approx(0.02));  // 2 GFLOP
  CHECK(sample.conditions.seconds_p25 == sample.seconds);
  CHECK(sample.conditions.repetitions == TimerOptions{}.fewest);
  CHECK(sample.conditions.commit == "abc");
  CHECK(sample.conditions.driver == "Linux 0");
  CHECK(sample.conditions.clock_state == "fixed");
  CHECK(sample.conditions.load_average_1min == 0.25);
  CHECK(sample.conditions.problem == options.problem);
  CHECK(sample.conditions.threads == 2);
  CHECK(sample.conditions.memory_bytes == 1 << 30);
  CHECK(device.flushes == TimerOptions{}.fewest);
}

TEST_CASE("session: a call that fails ends it, with the samples before it and the reason") {
  FakeDevice device;
  device.breaks = TimerOptions{}.fewest + 3;  // in the second shape
  const SessionResult result = measure_shapes(
      device, {shape_of("gemm", {1000, 1000, 1000}), shape_of("gemm", {2000, 1000, 1000})},
      options_of(device));
  REQUIRE(result.samples.size() == 1);
  CHECK(result.samples[0].shape == std::vector<std::int64_t>{1000, 1000, 1000});
  CHECK(result.fault.find("m=2000") != std::string::npos);
  CHECK(result.fault.find("an illegal address") != std::string::npos);
}

TEST_CASE("session: a kernel that cannot be prepared is left out, the others are measured") {
  FakeDevice device;
  device.refuses = "gemm";
  const SessionResult result = measure_shapes(
      device, {shape_of("gemm", {1000, 1000, 1000}), shape_of("read", {1 << 20}, "")},
      options_of(device));
  REQUIRE(result.samples.size() == 1);
  CHECK(result.samples[0].kernel == "read");
  CHECK(result.fault.empty());
  CHECK(result.refused == std::map<std::string, std::string>{{"gemm", "no library"}});
}

TEST_CASE("session: what would take over half a second is not run, but marked and scaled") {
  FakeDevice device;
  // 0.2 s, 0.4 s, 0.8 s, 6.4 s.
  const std::vector<Sample> shapes = {
      shape_of("gemm", {1000, 1000, 10'000}), shape_of("gemm", {2000, 1000, 10'000}),
      shape_of("gemm", {4000, 1000, 10'000}), shape_of("gemm", {32'000, 1000, 10'000})};
  const SessionResult result = measure_shapes(device, shapes, options_of(device));
  REQUIRE(result.samples.size() == 4);
  CHECK(device.prepared == 2);
  CHECK(result.samples[1].set_aside.empty());
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
    CHECK(result.samples[i].set_aside == kExtrapolated);
    CHECK(result.samples[i].conditions.repetitions == 0);
  }
  CHECK(result.samples[2].seconds == doctest::Approx(0.8));
  CHECK(result.samples[3].seconds == doctest::Approx(6.4));
  // Nothing smaller to go by: it has to be tried, once cold.
  FakeDevice fresh;
  const SessionResult first =
      measure_shapes(fresh, {shape_of("gemm", {4000, 1000, 10'000})}, options_of(fresh));
  CHECK(fresh.calls == 2);
  REQUIRE(first.samples.size() == 1);
  CHECK(first.samples[0].set_aside == kExtrapolated);
  CHECK(first.samples[0].seconds == doctest::Approx(0.8));
}

TEST_CASE("session: a stop keeps what is measured; operands without room are counted") {
  FakeDevice device(1e7);
  SessionOptions options = options_of(device);
  std::vector<Sample> shapes;
  for (int i = 1; i <= 5; ++i) shapes.push_back(shape_of("read", {i * 1'000'000}, ""));
  shapes.push_back(shape_of("read", {20'000'000}, ""));
  CHECK(measure_shapes(device, shapes, options).too_large == 1);
  const int each = TimerOptions{}.fewest + 1;
  const int before = device.calls;
  options.stopped = [&] { return device.calls - before >= 2 * each + 3; };
  const SessionResult result = measure_shapes(device, shapes, options);
  CHECK(result.stopped);
  CHECK(result.samples.size() == 2);
}

TEST_CASE("session: behind its budget it repeats less") {
  FakeDevice device;
  SessionOptions options = options_of(device);
  options.budget = 0.1;
  std::vector<Sample> shapes;
  for (int i = 1; i <= 40; ++i) shapes.push_back(shape_of("read", {i * 10'000'000}, ""));
  const SessionResult result = measure_shapes(device, shapes, options);
  REQUIRE(result.samples.size() == 40);
  CHECK(result.samples.front().conditions.repetitions == TimerOptions{}.fewest);
  CHECK(result.samples.back().conditions.repetitions == 2);
}

TEST_CASE("session: a quick one is warm; progress counts up") {
  FakeDevice device;
  SessionOptions options = options_of(device);
  options.cold = false;
  std::vector<std::size_t> seen;
  options.progress = [&](std::size_t done, std::size_t of) {
    CHECK(of == 2);
    seen.push_back(done);
  };
  measure_shapes(device, {shape_of("read", {1000}, ""), shape_of("read", {2000}, "")}, options);
  CHECK(device.flushes == 0);
  CHECK(seen == std::vector<std::size_t>{0, 1});
}

TEST_CASE("ceilings: the best of reads, copies and products that were measured") {
  FakeDevice device;
  const SessionResult result =
      measure_shapes(device,
                     {shape_of("read", {1'000'000}, ""), shape_of("copy", {1'000'000}, ""),
                      shape_of("gemm", {500, 500, 500}), shape_of("add", {1'000'000}, "bf16")},
                     options_of(device));
  const Ceilings best = ceilings_of(result.samples);
  CHECK(best.read == doctest::Approx(10e9));
  CHECK(best.copy == doctest::Approx(10e9));  // 2 MB in 0.2 ms
  CHECK(best.flops == doctest::Approx(100e9));
  CHECK(ceilings_of({}).read == 0);
}

namespace {

ModelSpec small_model() {
  ModelSpec model;
  model.hidden = 576;
  LayerSpec layer;
  layer.query_heads = 9;
  layer.kv_heads = 3;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 64;
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 576 * 1536;
  model.layers.assign(2, layer);
  return model;
}

}  // namespace

TEST_CASE("grid: every kernel, of the models' heads and widths, from little work to much") {
  ModelSpec latent = small_model();
  for (LayerSpec& layer : latent.layers) layer.attention = AttentionKind::latent;
  latent.layers[0].query_heads = 77;
  for (const GridSize size : {GridSize::full, GridSize::quick}) {
    const std::vector<Sample> grid = kernel_grid({small_model(), latent}, "fp32", size);
    std::map<std::string, std::vector<const Sample*>> kernels;
    for (const Sample& sample : grid) kernels[sample.kernel].push_back(&sample);
    for (const std::string& kernel : costed_kernels()) {
      if (kernel == "read" || kernel == "copy") continue;  // memory_grid
      CHECK_MESSAGE(kernels.contains(kernel), kernel);
    }
    for (const char* kernel :
         {"gemm", "prefill_attention", "prefix_attention", "decode_attention"}) {
      CHECK_MESSAGE(kernels.contains(kernel), kernel);
    }
    for (const auto& entry : kernels) {
      const std::string& kernel = entry.first;  // clang 14 captures no structured binding
      const std::vector<const Sample*>& samples = entry.second;
      CAPTURE(kernel);
      CHECK(samples.size() <= 40);
      double last = 0;
      for (const Sample* sample : samples) {
        const auto work = kernel_work(*sample);
        REQUIRE(work.has_value());
        CHECK(work->bytes > 0);
        const double size_now = std::max(work->flops / 10, work->bytes);
        CHECK(size_now >= last);
        last = size_now;
        if (kernel == "gemm") {
          CHECK(sample->dtype == "fp32");
          const bool ceiling = sample->shape == std::vector<std::int64_t>{2048, 2048, 2048};
          CHECK((ceiling || dimension(*sample, "k") == 576 || dimension(*sample, "k") == 1536));
        } else {
          CHECK(sample->dtype == "bf16");
        }
        if (kernel == "decode_attention") CHECK(dimension(*sample, "query_heads") == 9);
      }
    }
  }
}

TEST_CASE("grid: the same shapes whenever it is asked; memory and links by device") {
  const auto once = kernel_grid({small_model()}, "fp32", GridSize::full);
  CHECK(once == kernel_grid({small_model()}, "fp32", GridSize::full));
  const auto variants = [](const std::vector<Sample>& samples) {
    std::map<std::string, bool> fitted;
    for (const Sample& sample : samples) {
      if (sample.kernel == "copy") fitted[sample.variant] = sample.set_aside.empty();
    }
    return fitted;
  };
  using Variants = std::map<std::string, bool>;
  CHECK(variants(memory_grid(true, GridSize::full)) ==
        Variants{{kMemoryCopy, true}, {kMemoryCopyOneThread, false}});
  CHECK(variants(link_grid(true, GridSize::full)) ==
        Variants{{kMemoryCopy, true}, {kMemoryCopyBothWays, false}});
  CHECK(variants(link_grid(false, GridSize::full)) == Variants{{kToDevice, true},
                                                               {kToHost, false},
                                                               {kBothWays, false},
                                                               {kToDevicePageable, false},
                                                               {kToHostPageable, false}});
}
