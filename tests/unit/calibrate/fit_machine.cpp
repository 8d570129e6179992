// A machine's fit: known constants come back, the error is the noise, the rest is the base's.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "fit_support.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

const KernelReport& report(const MachineFit& fit, const std::string& kernel) {
  for (const KernelReport& r : fit.kernels) {
    if (r.kernel == kernel) return r;
  }
  FAIL("no report of " << kernel);
  return fit.kernels.front();
}

}  // namespace

TEST_CASE("fit: GEMM constants come back from samples with 2 % of noise") {
  std::vector<Sample> samples = gemm_samples();
  add_noise(samples, 0.02);
  const MachineFit fit = fit_machine(samples, round_gpu());
  CHECK(fit.gpu.gemm_t0 == doctest::Approx(5e-6).epsilon(0.05));
  CHECK(fit.gpu.gemm_ec == doctest::Approx(0.8).epsilon(0.02));
  CHECK(fit.gpu.gemm_em == doctest::Approx(0.7).epsilon(0.02));
  CHECK(fit.gpu.gemm_p == doctest::Approx(1.8).epsilon(0.05));
  const KernelReport& gemm = report(fit, "gemm");
  // Half and half of e^0.02 and e^-0.02: |1 - e^-+0.02| is 1.98 or 2.02 %.
  CHECK(gemm.held_out.mean == doctest::Approx(0.02).epsilon(0.1));
  CHECK(gemm.fitted == gemm.available);
  CHECK(gemm.fitted + gemm.held_out.count == samples.size());
  CHECK(gemm.warnings.empty());
}

TEST_CASE("fit: the file says what was fitted and leaves the rest") {
  std::vector<Sample> samples = gemm_samples();
  add_noise(samples, 0.02);
  GpuSpec base = round_gpu();
  base.source["prefill_ec"] = Source::assumed;
  base.source_text["prefill_ec"] = "a guess";
  base.fits[KernelClass::host] = {0.5, {}};
  const MachineFit fit = fit_machine(samples, base);
  CHECK(fit.gpu.source.at("gemm_ec") == Source::table);
  CHECK(fit.gpu.source_text.at("gemm_ec").find("a test, lib-1") != std::string::npos);
  CHECK(fit.gpu.prefill_ec == 0.5);
  CHECK(fit.gpu.source.at("prefill_ec") == Source::assumed);
  CHECK(fit.gpu.fits.at(KernelClass::host).error == 0.5);
  const KernelFit& gemm = fit.gpu.fits.at(KernelClass::gemm);
  CHECK(gemm.error == doctest::Approx(report(fit, "gemm").held_out.mean).epsilon(1e-3));
  REQUIRE(gemm.domain.size() == 3);
  CHECK(gemm.domain[0].dimension == "m");
  CHECK(gemm.domain[0].low == 1);
  CHECK(gemm.domain[0].high == 8192);
  CHECK(gemm.domain[2].low == 2048);
  CHECK(gemm.domain[2].high == 6144);
  CHECK(fit.gpu.source.at("kernels.gemm.error") == Source::table);
}

TEST_CASE("fit: own measurements are called measured") {
  std::vector<Sample> samples = gemm_samples();
  for (Sample& sample : samples) sample.source = "measured on node 7";
  CHECK(fit_machine(samples, round_gpu()).gpu.source.at("gemm_p") == Source::measured);
}

TEST_CASE("fit: the order of the samples and rows outside the domain change nothing") {
  std::vector<Sample> samples = gemm_samples();
  add_noise(samples, 0.02);
  const GpuSpec one = fit_machine(samples, round_gpu()).gpu;
  std::reverse(samples.begin(), samples.end());
  Sample aside = sample_of("gemm", {64, 4096, 4096}, 1);  // a thousand times too long
  aside.set_aside = "throttled";
  samples.push_back(aside);
  samples.push_back(sample_of("gemm", {64, 1024, 4096}, 1));      // n below 2048
  samples.push_back(sample_of("gemm", {17'000, 4096, 4096}, 1));  // m above 16384
  // 4096^2 weights in 1 us are 33 TB/s: from a cache.
  samples.push_back(sample_of("gemm", {1, 4096, 4096}, 1e-6));
  const GpuSpec two = fit_machine(samples, round_gpu()).gpu;
  CHECK(two.gemm_t0 == doctest::Approx(one.gemm_t0).epsilon(1e-3));
  CHECK(two.gemm_ec == doctest::Approx(one.gemm_ec).epsilon(1e-3));
  CHECK(two.gemm_em == doctest::Approx(one.gemm_em).epsilon(1e-3));
}

TEST_CASE("fit: decode attention, with a walk where a kv head serves one query head") {
  // t = 20 us + max_2(B / (90 % BW), 30 ns b h, 15 ns kv); L2 of 10 MB.
  GpuSpec base = round_gpu();
  base.l2 = Bytes(10'000'000);
  std::vector<Sample> samples;
  for (const double b : {1, 2, 4, 8, 16, 64, 256, 1024}) {
    for (const double kv : {256, 1024, 4096, 16'384, 65'536}) {
      for (const double h : {1, 2, 8}) {
        for (const double group : {1, 4}) {
          const double bytes = 4 * b * kv * h * 128;
          const double floor = std::max(30e-9 * b * h, group > 1 ? 0 : 15e-9 * kv);
          const double t = 20e-6 + smooth_max(bytes / 0.9e12, floor, 2);
          samples.push_back(
              sample_of("decode_attention",
                        {static_cast<std::int64_t>(b), static_cast<std::int64_t>(kv),
                         static_cast<std::int64_t>(group * h), static_cast<std::int64_t>(h), 128},
                        bytes > 12e6 ? t : 5 * t));  // in the cache: 5 times off, and not looked at
        }
      }
    }
  }
  add_noise(samples, 0.01);
  const MachineFit fit = fit_machine(samples, base);
  CHECK(fit.gpu.decode_t0 == doctest::Approx(20e-6).epsilon(0.05));
  CHECK(fit.gpu.decode_em == doctest::Approx(0.9).epsilon(0.02));
  CHECK(fit.gpu.decode_block == doctest::Approx(30e-9).epsilon(0.1));
  CHECK(fit.gpu.decode_walk == doctest::Approx(15e-9).epsilon(0.1));
  CHECK(fit.gpu.decode_p == doctest::Approx(2).epsilon(0.15));
  CHECK(report(fit, "decode_attention").held_out.mean == doctest::Approx(0.01).epsilon(0.2));

  // Without samples of one query head the walk stays the base's.
  std::erase_if(samples, [](const Sample& s) { return s.shape[2] == s.shape[3]; });
  base.decode_walk = 3e-9;
  CHECK(fit_machine(samples, base).gpu.decode_walk == 3e-9);
}

TEST_CASE("fit: cached prefix") {
  // t = 8 us + max_6(F / (60 % P), 25 ns (kv + c/2 + 64)), 32 heads of 128.
  std::vector<Sample> samples;
  for (const double c : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}) {
    for (const double kv : {64, 256, 1024, 2048, 4096, 8192, 16'384}) {
      const double flops = 4 * 32 * 128 * c * (kv + c / 2 + 64);
      const double t = 8e-6 + smooth_max(flops / 60e12, 25e-9 * (kv + c / 2 + 64), 6);
      samples.push_back(sample_of(
          "prefix_attention",
          {1, static_cast<std::int64_t>(c), static_cast<std::int64_t>(kv), 32, 8, 128}, t));
    }
  }
  add_noise(samples, 0.01);
  GpuSpec base = round_gpu();
  base.prefill_ec = base.prefill_em = base.decode_em = 1;  // their floors lie below
  const MachineFit fit = fit_machine(samples, base);
  CHECK(fit.gpu.prefix_t0 == doctest::Approx(8e-6).epsilon(0.05));
  CHECK(fit.gpu.prefix_ec == doctest::Approx(0.6).epsilon(0.03));
  CHECK(fit.gpu.prefix_kappa == doctest::Approx(25e-9).epsilon(0.03));
  CHECK(fit.gpu.prefix_p == doctest::Approx(6).epsilon(0.3));

  // Short chunks alone do not show the compute: it is taken from prefill attention, and said so.
  std::erase_if(samples, [](const Sample& s) { return s.shape[1] > 128; });
  const MachineFit walk = fit_machine(samples, base);
  CHECK(walk.gpu.prefix_kappa == doctest::Approx(25e-9).epsilon(0.03));
}

TEST_CASE("fit: all-reduce by the number of ranks, errors of all of them together") {
  std::vector<Sample> samples;
  for (const auto& [ranks, latency, rate] :
       {std::tuple{2, 6e-6, 100e9}, std::tuple{8, 20e-6, 40e9}}) {
    for (double bytes = 1024; bytes < 1e9; bytes *= 2) {
      samples.push_back(sample_of("all_reduce", {static_cast<std::int64_t>(bytes), ranks},
                                  latency + bytes / rate));
    }
  }
  const MachineFit fit = fit_machine(samples, round_gpu());
  CHECK(fit.gpu.all_reduce.at(2).first == doctest::Approx(6e-6).epsilon(1e-3));
  CHECK(fit.gpu.all_reduce.at(2).second == doctest::Approx(100e9).epsilon(1e-3));
  CHECK(fit.gpu.all_reduce.at(8).first == doctest::Approx(20e-6).epsilon(1e-3));
  CHECK(fit.gpu.all_reduce.at(8).second == doctest::Approx(40e9).epsilon(1e-3));
  CHECK(fit.gpu.all_reduce.at(4) == round_gpu().all_reduce.at(4));  // nobody measured it
  CHECK(fit.gpu.fits.at(KernelClass::collective).error < 1e-3);
  CHECK(fit.gpu.source.at("all_reduce.8.rate") == Source::table);
}

TEST_CASE("fit: what the samples hold and no rule takes is named") {
  std::vector<Sample> samples = gemm_samples();
  samples.push_back(sample_of("sampler", {1, 1000}, 1e-5));
  samples.push_back(sample_of("elementwise", {1000}, 1e-5));
  FitOptions options;
  options.skip = {"elementwise"};
  const MachineFit fit = fit_machine(samples, round_gpu(), options);
  REQUIRE(fit.left_out.size() == 2);
  CHECK(fit.left_out[0] == "elementwise: 1 samples, skipped");
  CHECK(fit.left_out[1] == "sampler: 1 samples, no constants of a GPU");
}
