// predict against the formulas by hand, and the domains of the fits.

#include <doctest/doctest.h>

#include "calibrate/fit/predict.h"
#include "fit_support.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

TEST_CASE("predict: by hand") {
  const GpuSpec gpu = round_gpu();
  // F = 2 x 1000 x 2500 x 4000 = 2e10 at 50 TFLOP/s: 400 us. B = 2 (4e6 + 1e7 + 2.5e6) = 3.3e7 at
  // 0.5 TB/s: 66 us. sqrt(400^2 + 66^2) = 405.408.
  CHECK(*predict(gpu, sample_of("gemm", {1000, 2500, 4000}, 1)) ==
        doctest::Approx(415.408e-6).epsilon(1e-5));
  // 4 sequences x 1000 keys x 2 heads x 100 x 4 B = 3.2e6 B at 0.5 TB/s: 6.4 us after 10.
  CHECK(*predict(gpu, sample_of("decode_attention", {4, 1000, 8, 2, 100}, 1)) ==
        doctest::Approx(16.4e-6).epsilon(1e-9));
  // 2 us after 1e6 / 0.5e12 = 2 us.
  CHECK(*predict(gpu, sample_of("elementwise", {1'000'000}, 1)) ==
        doctest::Approx(4e-6).epsilon(1e-9));
  // 5 us + 1e6 / 50e9 = 20 us.
  CHECK(*predict(gpu, sample_of("all_reduce", {1'000'000, 2}, 1)) ==
        doctest::Approx(25e-6).epsilon(1e-9));
  CHECK_FALSE(predict(gpu, sample_of("all_reduce", {1'000'000, 3}, 1)).has_value());
  CHECK_FALSE(predict(gpu, sample_of("serving_prefill", {1, 10, 1}, 1)).has_value());
  CHECK_FALSE(predict(gpu, sample_of("nic_message", {10, 1}, 1)).has_value());
  Sample fp8 = sample_of("gemm", {1000, 2500, 4000}, 1);
  fp8.dtype = "fp8";
  CHECK_FALSE(predict(gpu, fp8).has_value());
}

TEST_CASE("in_domain: edges") {
  const GpuSpec gpu = round_gpu();
  CHECK(in_domain(gpu, sample_of("gemm", {16'384, 2048, 2048}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("gemm", {16'385, 2048, 2048}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("gemm", {1, 2047, 2048}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("gemm", {1, 2048, 2047}, 1)));
  // 2 (2048 + 2048^2 + 2048) = 8396800 B: 8.3968 us at 1 TB/s.
  CHECK(in_domain(gpu, sample_of("gemm", {1, 2048, 2048}, 8.3969e-6)));
  CHECK_FALSE(in_domain(gpu, sample_of("gemm", {1, 2048, 2048}, 8.3967e-6)));
  // An 8-bit kernel reads half: 2048 + 2048^2 + 4096 = 4200448 B.
  Sample fp8 = sample_of("gemm", {1, 2048, 2048}, 4.2005e-6);
  fp8.dtype = "fp8";
  CHECK(in_domain(gpu, fp8));
  fp8.seconds = 4.2004e-6;
  CHECK_FALSE(in_domain(gpu, fp8));

  CHECK(in_domain(gpu, sample_of("prefill_attention", {1, 64, 8, 8, 128}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("prefill_attention", {1, 63, 8, 8, 128}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("prefill_attention", {1, 64, 7, 7, 128}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("prefill_attention", {1, 64, 16, 9, 128}, 1)));
  CHECK(in_domain(gpu, sample_of("prefix_attention", {1, 16, 1, 8, 8, 128}, 1)));
  CHECK_FALSE(in_domain(gpu, sample_of("prefix_attention", {1, 15, 1, 8, 8, 128}, 1)));
}

TEST_CASE("beyond_l2: 1.2 times the cache") {
  GpuSpec gpu = round_gpu();
  gpu.l2 = Bytes(1'000'000);
  // 4 x kv x 1 x 100 B: 1.2e6 B at kv = 3000.
  CHECK_FALSE(beyond_l2(gpu, sample_of("decode_attention", {1, 3000, 1, 1, 100}, 1)));
  CHECK(beyond_l2(gpu, sample_of("decode_attention", {1, 3001, 1, 1, 100}, 1)));
  CHECK(beyond_l2(gpu, sample_of("gemm", {1, 1, 1}, 1)));
}

TEST_CASE("held_out: half of the shapes, the same ones for every machine, source and time") {
  int held = 0, all = 0;
  for (std::int64_t m = 1; m <= 64; ++m) {
    for (std::int64_t n = 2048; n <= 16'384; n += 2048) {
      Sample sample = sample_of("gemm", {m, n, 4096}, 1);
      const bool out = held_out(sample);
      held += out ? 1 : 0;
      ++all;
      sample.machine = "other";
      sample.source = sample.variant = sample.licence = "x";
      sample.seconds = 2;
      CHECK(held_out(sample) == out);
    }
  }
  // 512 fair coins: 5 standard deviations are 57.
  CHECK(std::abs(held - all / 2) < 57);
}
