// Fits of a GPU's own samples: its base is made of products in bf16, its memory and its link.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/fit/hardware_writer.h"
#include "calibrate/fit/own_base.h"
#include "calibrate/fit/rules.h"
#include "calibrate/measure/memory_grid.h"
#include "fit_support.h"
#include "sim/gpu/sample_cost.h"
#include "sim/scenario/gpu_file.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

Sample own(Sample sample, const std::string& variant = "kvlane") {
  sample.machine = "NVIDIA-L20";
  sample.source = "measured by kvlane abc";
  sample.variant = variant;
  sample.conditions.threads = 16;
  sample.conditions.multiprocessors = 92;
  sample.conditions.memory_bytes = 48'000'000'000;
  sample.conditions.cache_bytes = 96 << 20;
  return sample;
}

void add_copies(std::vector<Sample>& samples, const char* way, double rate, const char* aside) {
  for (double bytes = 4096; bytes < 4e8; bytes *= 1.5) {
    Sample sample = own(sample_of("copy", {static_cast<std::int64_t>(bytes)}, 8e-6 + bytes / rate),
                        std::string(way) + ": CUDA 12.4");
    sample.dtype = "";
    sample.set_aside = aside;
    samples.push_back(std::move(sample));
  }
}

// bf16 at 100 TFLOP/s, memory of 800 GB/s, PCIe 24 and 22 GB/s, together 40; the host packs 6 GB/s.
std::vector<Sample> gpu_samples() {
  std::vector<Sample> samples;
  for (Sample& sample : gemm_samples()) samples.push_back(own(std::move(sample), "cuBLAS 12.4"));
  for (double bytes = 4096; bytes < 1e9; bytes *= 1.5) {
    const auto size = static_cast<std::int64_t>(bytes);
    samples.push_back(own(sample_of("read", {size}, 2e-6 + bytes / 800e9)));
    samples.push_back(own(sample_of("add", {size}, 3e-6 + 6 * bytes / 700e9)));
  }
  const char* const aside = "another way to copy";
  add_copies(samples, kMemoryCopy, 350e9, aside);
  add_copies(samples, kToDevice, 24e9, "");
  add_copies(samples, kToHost, 22e9, aside);
  add_copies(samples, kBothWays, 20e9, aside);
  for (const std::int64_t tokens : {1000, 2000, 4000, 8000, 16'000, 32'000, 64'000, 128'000}) {
    for (const std::int64_t sequences : {1, 2, 3, 4, 6, 8}) {
      const std::int64_t rows = sequences * 8 * (tokens / 5);
      const auto bytes = static_cast<double>(rows * 512);
      const std::vector<std::int64_t> shape = {sequences, tokens, tokens / 5, 1, 8, 128};
      samples.push_back(own(sample_of("kv_gather", shape, 10e-6 + 2 * bytes / 40e9),
                            std::string(kGatherZeroCopy) + ": kvlane"));
      Sample packed = own(sample_of("kv_gather", shape, 8e-6 + bytes / 24e9 + bytes / 6e9),
                          std::string(kGatherPacked) + ": kvlane");
      packed.set_aside = "another way to gather";
      samples.push_back(std::move(packed));
    }
  }
  return samples;
}

}  // namespace

TEST_CASE("base of a GPU's own samples: its product in bf16, its memory, its link") {
  const std::vector<Sample> samples = gpu_samples();
  const auto base = base_of_own(samples);
  REQUIRE(base.has_value());
  CHECK(base->name == "NVIDIA-L20");
  CHECK(base->sm_count == 92);
  CHECK(base->memory.count() == 48'000'000'000);
  CHECK(base->l2.count() == 96 << 20);
  CHECK(base->peak_flops == doctest::Approx(80e12).epsilon(0.05));
  CHECK(base->peak_int8_ops == doctest::Approx(2 * base->peak_flops));
  CHECK(base->source.at("peak_int8_ops") == Source::assumed);
  CHECK(base->source_text.at("peak_flops").find("bf16") != std::string::npos);
  CHECK(base->memory_bandwidth == doctest::Approx(800e9).epsilon(0.01));
  // Not the copy within the device, which is faster.
  CHECK(base->pcie_h2d.bytes_per_sec() == doctest::Approx(24e9).epsilon(0.01));
  CHECK(base->pcie_d2h.bytes_per_sec() == doctest::Approx(22e9).epsilon(0.01));
  CHECK(base->host_memory.bytes_per_sec() == doctest::Approx(40e9).epsilon(0.01));
  CHECK(base->source.at("host_memory") == Source::extrapolated);
  // Without the way back there is no base.
  std::vector<Sample> one_way = samples;
  std::erase_if(one_way,
                [](const Sample& sample) { return sample.variant.find("device to host") == 0; });
  CHECK_FALSE(base_of_own(one_way).has_value());
}

TEST_CASE("fit of a GPU's own samples: no threads that wake, no arithmetic of decode attention") {
  const std::vector<Sample> samples = gpu_samples();
  FitOptions options;
  options.lenient = true;
  MachineFit fit = fit_machine(samples, *base_of_own(samples), options);
  derive_from_fits(fit.gpu, samples);
  CHECK(fit.left_out.empty());
  const KernelCost& copy = fit.gpu.costs.at("copy");
  CHECK(copy.bandwidth == doctest::Approx(48e9).epsilon(0.02));  // of the link: read and written
  CHECK(copy.t0 == doctest::Approx(8e-6).epsilon(0.05));
  CHECK(copy.wake == 0);
  CHECK(copy.alone == 0);
  CHECK(to_seconds(fit.gpu.pcie_copy) == doctest::Approx(8e-6).epsilon(0.05));
  // Of the kernel's way alone. Single rows: bytes and rows grow together.
  const auto gather = std::find_if(samples.begin(), samples.end(), [](const Sample& sample) {
    return sample.kernel == "kv_gather" && sample.set_aside.empty();
  });
  CHECK(*SampleCost(fit.gpu).seconds(*gather) == doctest::Approx(gather->seconds).epsilon(0.03));
  CHECK(fit.gpu.host_gather_bandwidth == doctest::Approx(6e9).epsilon(0.02));
  CHECK(fit.gpu.elementwise_em == doctest::Approx(700.0 / 800).epsilon(0.02));
  const std::string text = hardware_text(fit.gpu);
  CHECK(hardware_text(read_gpu(text, "written")) == text);

  const Sample on_gpu = own(sample_of("decode_attention", {1, 4096, 8, 8, 128}, 1e-4));
  Sample on_cpu = on_gpu;
  on_cpu.conditions.multiprocessors = 0;
  Constant arithmetic;
  arithmetic.key = "decode_ec";
  CHECK_FALSE(is_visible(arithmetic, {&on_gpu}));
  CHECK(is_visible(arithmetic, {&on_cpu}));
}
