// Fits of a machine's own samples: costs of single kernels come back, the base is made of them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/fit/hardware_writer.h"
#include "calibrate/fit/own_base.h"
#include "fit_support.h"
#include "sim/gpu/sample_cost.h"
#include "sim/scenario/gpu_file.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

Sample own(const char* kernel, std::vector<std::int64_t> shape, double seconds,
           const char* dtype = "bf16") {
  Sample sample = sample_of(kernel, std::move(shape), seconds);
  sample.machine = "laptop-x2";
  sample.source = "measured by kvlane abc";
  sample.dtype = dtype;
  sample.conditions.threads = 2;
  sample.conditions.memory_bytes = 8'000'000'000;
  sample.conditions.cache_bytes = 8 << 20;
  return sample;
}

// 20 us + max_2(bytes / 8 GB/s, rows * 3 us).
std::vector<Sample> topk_samples() {
  std::vector<Sample> samples;
  for (const double rows : {1, 2, 4, 8, 16, 32, 64}) {
    for (const double width : {512, 1000, 2048, 5000, 10'000, 40'000, 160'000}) {
      const double bytes = 4 * rows * (width + width / 8);
      const double t = 20e-6 + smooth_max(bytes / 8e9, rows * 3e-6, 2);
      samples.push_back(own("topk",
                            {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width),
                             static_cast<std::int64_t>(width / 8)},
                            t));
    }
  }
  return samples;
}

// fp32, 250 GFLOP/s and 10 GB/s.
std::vector<Sample> ceilings() {
  std::vector<Sample> samples;
  for (const double m : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    for (const double n : {576, 1536, 4096}) {
      for (const double k : {576, 1536}) {
        const double bytes = 4 * (m * k + n * k + m * n);
        const double t = 5e-6 + smooth_max(2 * m * n * k / 250e9, bytes / 10e9, 3);
        samples.push_back(own("gemm",
                              {static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                               static_cast<std::int64_t>(k)},
                              t, "fp32"));
      }
    }
  }
  for (double bytes = 4096; bytes < 1e9; bytes *= 1.5) {
    const auto size = static_cast<std::int64_t>(bytes);
    samples.push_back(own("read", {size}, 1e-6 + bytes / 11e9, ""));
    samples.push_back(own("copy", {size}, 2e-6 + 2 * bytes / 12e9, ""));
  }
  return samples;
}

}  // namespace

TEST_CASE("fit of own samples: launch, bandwidth, time a row and exponent of a kernel come back") {
  std::vector<Sample> samples = topk_samples();
  add_noise(samples, 0.01);
  const MachineFit fit = fit_machine(samples, round_gpu());
  const KernelCost& cost = fit.gpu.costs.at("topk");
  CHECK(cost.t0 == doctest::Approx(20e-6).epsilon(0.03));
  CHECK(cost.bandwidth == doctest::Approx(8e9).epsilon(0.03));
  CHECK(cost.item == doctest::Approx(3e-6).epsilon(0.03));
  CHECK(cost.p == doctest::Approx(2).epsilon(0.1));
  CHECK(cost.flops == 0);
  REQUIRE(fit.kernels.size() == 1);
  CHECK(fit.kernels[0].held_out.median == doctest::Approx(0.01).epsilon(0.3));
  CHECK(fit.gpu.source.at("kernel_costs.topk.item") == Source::measured);
  CHECK(fit.gpu.fits.at(KernelClass::selection).error ==
        doctest::Approx(fit.kernels[0].held_out.mean).epsilon(0.01));
  // The formula of the file is what was fitted.
  CHECK(*SampleCost(fit.gpu).seconds(samples[5]) ==
        doctest::Approx(samples[5].seconds).epsilon(0.03));
}

TEST_CASE("fit of own samples: the same numbers from elsewhere are no kernel of a hardware file") {
  std::vector<Sample> samples = topk_samples();
  for (Sample& sample : samples) sample.source = "a test";
  CHECK_THROWS_AS(fit_machine(samples, round_gpu()), FitError);
}

TEST_CASE("base of own samples: ceilings, sizes, and guesses that say so") {
  const std::vector<Sample> samples = ceilings();
  const auto base = base_of_own(samples);
  REQUIRE(base.has_value());
  CHECK(base->name == "laptop-x2");
  CHECK(base->sm_count == 2);
  CHECK(base->memory.count() == 8'000'000'000);
  CHECK(base->l2.count() == 8 << 20);
  CHECK(base->peak_flops == doctest::Approx(250e9).epsilon(0.05));
  CHECK(base->memory_bandwidth == doctest::Approx(11e9).epsilon(0.01));
  CHECK(base->pcie_h2d.bytes_per_sec() == doctest::Approx(6e9).epsilon(0.01));
  CHECK(base->source.at("peak_flops") == Source::measured);
  CHECK(base->source.at("host_step") == Source::assumed);
  // Without a read, with none of its own, without the machine's sizes: no base.
  std::vector<Sample> less = samples;
  std::erase_if(less, [](const Sample& sample) { return sample.kernel == "read"; });
  CHECK_FALSE(base_of_own(less).has_value());
  std::vector<Sample> others = samples;
  for (Sample& sample : others) sample.source = "a table";
  CHECK_FALSE(base_of_own(others).has_value());
  std::vector<Sample> silent = samples;
  for (Sample& sample : silent) sample.conditions = {};
  CHECK_FALSE(base_of_own(silent).has_value());
  CHECK_FALSE(base_of_own({}).has_value());
}

TEST_CASE("fit of own samples: the whole file reads back; derived numbers follow the fits") {
  std::vector<Sample> samples = ceilings();
  for (const Sample& sample : topk_samples()) samples.push_back(sample);
  for (double elements = 1000; elements < 1e8; elements *= 1.5) {
    samples.push_back(
        own("add", {static_cast<std::int64_t>(elements)}, 4e-6 + 6 * elements / 5.5e9));
  }
  FitOptions options;
  options.lenient = true;
  MachineFit fit = fit_machine(samples, *base_of_own(samples), options);
  derive_from_fits(fit.gpu, samples);
  CHECK(fit.gpu.gemm_em == doctest::Approx(0.5 * 10 / 11).epsilon(0.05));  // fp32: twice the bytes
  CHECK(fit.gpu.elementwise_em == doctest::Approx(0.5).epsilon(0.02));
  CHECK(fit.gpu.small_kernel_t0 == doctest::Approx(4e-6).epsilon(0.05));
  CHECK(to_seconds(fit.gpu.pcie_copy) == doctest::Approx(2e-6).epsilon(0.1));
  CHECK(fit.gpu.source.at("elementwise_em") == Source::measured);
  const std::string text = hardware_text(fit.gpu);
  const GpuSpec again = read_gpu(text, "written");
  CHECK(again.costs == fit.gpu.costs);
  CHECK(hardware_text(again) == text);
  CHECK(text.find("kernel: topk") != std::string::npos);
}

TEST_CASE("fit of own samples: a kernel with too few shapes is left out, with the reason") {
  std::vector<Sample> samples = ceilings();
  const std::vector<Sample> topk = topk_samples();
  samples.insert(samples.end(), topk.begin(), topk.begin() + 4);
  CHECK_THROWS_AS(fit_machine(samples, *base_of_own(samples)), FitError);
  FitOptions options;
  options.lenient = true;
  const MachineFit fit = fit_machine(samples, *base_of_own(samples), options);
  CHECK_FALSE(fit.gpu.costs.contains("topk"));
  CHECK(std::any_of(fit.left_out.begin(), fit.left_out.end(), [](const std::string& text) {
    return text.find("topk: 4 samples") == 0 && text.find("expected at least") != std::string::npos;
  }));
  CHECK(fit.gpu.costs.contains("read"));
}

TEST_CASE("fit of own samples: what was only extrapolated is not fitted to") {
  std::vector<Sample> samples = topk_samples();
  Sample wrong = samples.back();
  wrong.shape[0] = 1000;
  wrong.seconds = 1e-9;
  wrong.set_aside = kExtrapolated;
  const MachineFit clean = fit_machine(samples, round_gpu());
  samples.push_back(wrong);
  CHECK(fit_machine(samples, round_gpu()).gpu.costs == clean.gpu.costs);
}

TEST_CASE(
    "fit of own samples: times that do not grow with the work still make a file that reads back") {
  std::vector<Sample> samples = ceilings();
  const GpuSpec base = *base_of_own(samples);
  std::erase_if(samples, [](const Sample& sample) { return sample.kernel != "gemm"; });
  for (double bytes = 4096; bytes < 1e7; bytes *= 1.2) {
    samples.push_back(own("read", {static_cast<std::int64_t>(bytes)}, 1e-4, ""));
    samples.push_back(
        own("kv_gather", {1, 2, 4096, static_cast<std::int64_t>(bytes / 4096), 1, 64}, 2e-4));
  }
  add_noise(samples, 0.2);
  const MachineFit fit = fit_machine(samples, base);
  for (const char* kernel : {"read", "kv_gather"}) {
    const KernelCost& cost = fit.gpu.costs.at(kernel);
    CHECK(cost.t0 + cost.wake == doctest::Approx(1e-4).epsilon(1.2));
    CHECK((cost.bandwidth > 0 || cost.item > 0));
  }
  CHECK(read_gpu(hardware_text(fit.gpu), "written").costs == fit.gpu.costs);
}
