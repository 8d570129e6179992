// Samples that cannot be fitted, and what is said of them.

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "fit_support.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

std::string error_of(const std::vector<Sample>& samples, const FitOptions& options = {}) {
  try {
    fit_machine(samples, round_gpu(), options);
  } catch (const FitError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("fit errors: nothing, several machines, times that are no times") {
  CHECK(error_of({}) == "no samples");
  std::vector<Sample> samples = gemm_samples();
  samples.back().machine = "other";
  CHECK(error_of(samples) == "samples of several machines: other, round");
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
    samples = gemm_samples();
    samples[5].seconds = seconds;
    CHECK(error_of(samples).find("expected a time above 0") != std::string::npos);
  }
}

TEST_CASE("fit errors: too few rows in a half") {
  // GEMM has 4 constants: 8 rows in each half.
  std::vector<Sample> fitted, held;
  for (const Sample& sample : gemm_samples()) (held_out(sample) ? held : fitted).push_back(sample);
  REQUIRE(fitted.size() > 8);
  REQUIRE(held.size() > 8);
  std::vector<Sample> enough(fitted.begin(), fitted.begin() + 8);
  enough.insert(enough.end(), held.begin(), held.begin() + 8);
  CHECK(error_of(enough).find("rows to fit") == std::string::npos);
  const std::vector<Sample> fewer_held(enough.begin(), enough.end() - 1);
  CHECK(error_of(fewer_held) ==
        "gemm: 8 rows to fit and 7 held out; expected at least 8 each for 4 constants");
  const std::vector<Sample> fewer_fitted(enough.begin() + 1, enough.end());
  CHECK(error_of(fewer_fitted) ==
        "gemm: 7 rows to fit and 8 held out; expected at least 8 each for 4 constants");
}

TEST_CASE("fit errors: variants are not mixed unless chosen") {
  std::vector<Sample> samples = gemm_samples();
  const std::size_t half = samples.size() / 2;
  for (std::size_t i = half; i < samples.size(); ++i) samples[i].variant = "lib-2";
  const std::string error = error_of(samples);
  CHECK(error.find("samples of several variants: `a test, lib-1` (") != std::string::npos);
  CHECK(error.find("`a test, lib-2` (") != std::string::npos);
  FitOptions options;
  options.variants["gemm"] = "lib-3";
  CHECK(error_of(samples, options).find("no variant holds `lib-3`") != std::string::npos);
  options.variants["gemm"] = "lib-2";
  const MachineFit fit = fit_machine(samples, round_gpu(), options);
  CHECK(fit.kernels[0].variant == "lib-2");
  CHECK(fit.kernels[0].available + fit.kernels[0].held_out.count == samples.size() - half);
}

TEST_CASE("fit errors: fp8 without the peak; nothing that a rule takes") {
  std::vector<Sample> samples = gemm_samples();
  for (Sample& sample : samples) sample.dtype = "fp8";
  CHECK(error_of(samples) == "gemm_fp8: the base has no peak_fp8_flops");
  CHECK(error_of({sample_of("sampler", {1, 10}, 1e-6)}) ==
        "nothing to fit: sampler: 1 samples, no constants of a GPU");
}

TEST_CASE("fit warnings: a constant at its bound") {
  // Twice as fast as the peaks: the efficiencies end at 120 %.
  std::vector<Sample> samples = gemm_samples();
  for (Sample& sample : samples) sample.seconds /= 1.42;  // 80 % -> 114 %, 70 % -> 99.4 %
  CHECK(fit_machine(samples, round_gpu()).kernels[0].warnings.empty());
  GpuSpec slow = round_gpu();
  slow.peak_flops /= 2;  // 114 % -> 227 %
  const MachineFit fit = fit_machine(samples, slow);
  REQUIRE_FALSE(fit.kernels[0].warnings.empty());
  CHECK(fit.kernels[0].warnings[0].rfind("gemm_ec is at its bound, 1", 0) == 0);
}
