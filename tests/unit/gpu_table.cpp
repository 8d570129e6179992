// The table of measured kernels: interpolation of measured / formula, and its border.

#include <doctest/doctest.h>

#include <cmath>

#include "gpu_support.h"
#include "sim/gpu/grid_table.h"
#include "sim/gpu/sample_cost.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

KernelShape gemm_shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {KernelClass::gemm, {m, n, k}, {16, 0, 0}};
}

Sample gemm_sample(std::int64_t m, std::int64_t n, std::int64_t k, double seconds) {
  Sample sample;
  sample.machine = "round";
  sample.source = "test";
  sample.variant = "v";
  sample.kernel = "gemm";
  sample.shape = {m, n, k};
  sample.dtype = "bf16";
  sample.seconds = seconds;
  return sample;
}

}  // namespace

TEST_CASE("GridTable: on a line the logarithm of the factor is interpolated, outside is nothing") {
  GridTable table;
  table.add(gemm_shape(16, 1000, 1000), 2.0);
  table.add(gemm_shape(64, 1000, 1000), 0.5);
  CHECK(table.size() == 2);
  CHECK(*table.factor(gemm_shape(16, 1000, 1000)) == doctest::Approx(2.0));
  // 32 is half way from 16 to 64 on a logarithmic axis: the geometric mean.
  CHECK(*table.factor(gemm_shape(32, 1000, 1000)) == doctest::Approx(1.0));
  CHECK_FALSE(table.factor(gemm_shape(15, 1000, 1000)));
  CHECK_FALSE(table.factor(gemm_shape(65, 1000, 1000)));
  CHECK_FALSE(table.factor(gemm_shape(32, 1001, 1000)));
  CHECK_FALSE(table.factor({KernelClass::gemm, {32, 1000, 1000}, {8, 0, 0}}));
  CHECK_FALSE(table.factor({KernelClass::decode_attention, {32, 1000, 1000}, {16, 0, 0}}));
  table.add(gemm_shape(16, 1000, 1000), 8.0);  // replaces
  CHECK(table.size() == 2);
  CHECK(*table.factor(gemm_shape(32, 1000, 1000)) == doctest::Approx(2.0));
}

TEST_CASE("GridTable: between columns it is bilinear, with a corner missing there is no answer") {
  GridTable table;
  // log factor = log2(n / 1000) * 0.3 + log2(k / 1000) * 0.1 + log2(m / 16) * 0.2: linear on all
  // three logarithmic axes, so that interpolation is exact.
  const auto factor = [](double m, double n, double k) {
    return std::exp(0.3 * std::log2(n / 1000) + 0.1 * std::log2(k / 1000) +
                    0.2 * std::log2(m / 16));
  };
  for (const std::int64_t m : {16, 64}) {
    for (const std::int64_t n : {1000, 4000}) {
      for (const std::int64_t k : {1000, 4000}) {
        table.add(gemm_shape(m, n, k), factor(double(m), double(n), double(k)));
      }
    }
  }
  CHECK(*table.factor(gemm_shape(40, 1500, 3000)) == doctest::Approx(factor(40, 1500, 3000)));
  CHECK(*table.factor(gemm_shape(40, 1000, 3000)) == doctest::Approx(factor(40, 1000, 3000)));
  CHECK_FALSE(table.factor(gemm_shape(40, 999, 3000)));
  CHECK_FALSE(table.factor(gemm_shape(40, 1500, 4001)));
  GridTable hole;
  hole.add(gemm_shape(16, 1000, 1000), 1);
  hole.add(gemm_shape(64, 1000, 1000), 1);
  hole.add(gemm_shape(16, 4000, 4000), 1);
  CHECK_FALSE(hole.factor(gemm_shape(32, 2000, 2000)));
}

TEST_CASE("make_grid_table: a cost model with the table gives the measured times back") {
  const GpuSpec gpu = round_gpu();
  std::vector<Sample> samples{gemm_sample(16, 1000, 1000, 123e-6),
                              gemm_sample(64, 1000, 1000, 456e-6)};
  samples.push_back(gemm_sample(64, 2000, 1000, 1));
  samples.back().set_aside = "throttled";
  samples.push_back(gemm_sample(64, 3000, 1000, 1));
  samples.back().machine = "another";
  const GridTable table = make_grid_table(gpu, samples);
  CHECK(table.size() == 2);
  const CostModel with(gpu, round_model(), 1, false, &table);
  const CostModel without(gpu, round_model(), 1, false);
  CHECK(with.gemm(16, 1000, 1000) == doctest::Approx(123e-6));
  CHECK(with.gemm(64, 1000, 1000) == doctest::Approx(456e-6));
  CHECK(with.gemm(65, 1000, 1000) == without.gemm(65, 1000, 1000));
  CHECK(with.gemm(64, 2000, 1000) == without.gemm(64, 2000, 1000));
  CHECK(with.usage().table(KernelClass::gemm).inside == 2);
  CHECK(with.usage().table(KernelClass::gemm).outside == 2);
  samples[1].variant = "other";
  CHECK_THROWS_AS(make_grid_table(gpu, samples), std::logic_error);
}

TEST_CASE("SampleCost: one launch of several prompts is as many heads; bytes of decode") {
  const GpuSpec gpu = round_gpu();
  const SampleCost cost(gpu);
  const CostModel model(gpu, round_model(), 1, false);
  Sample sample;
  sample.kernel = "prefill_attention";
  sample.shape = {4, 1280, 10, 2, 100};
  sample.dtype = "bf16";
  CHECK(*cost.seconds(sample) == model.prefill_attention({40, 8, 100, 0}, 1280));
  sample.kernel = "decode_attention";
  sample.shape = {4, 1000, 10, 2, 100};
  // 2 x 4 x 1000 x 2 x 100 x 2 B at 0.5 TB/s.
  CHECK(*cost.seconds(sample) == doctest::Approx(10e-6 + 3.2e6 / 0.5e12));
  sample.dtype = "fp8";
  CHECK_FALSE(cost.seconds(sample));  // nobody measured it
  sample.kernel = "all_reduce";
  sample.dtype = "bf16";
  sample.shape = {1'000'000, 2};
  CHECK(*cost.seconds(sample) == doctest::Approx(5e-6 + 20e-6));
  sample.shape = {1'000'000, 3};
  CHECK_FALSE(cost.seconds(sample));
  sample.kernel = "serving_step";
  CHECK_FALSE(cost.seconds(sample));
}
