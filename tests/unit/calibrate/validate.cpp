// Rows of `calibrate validate`: figures in closed form, and predictions of whole engines.

#include <doctest/doctest.h>

#include <cmath>

#include "../gpu_support.h"
#include "calibrate/validate/kernel_rows.h"
#include "calibrate/validate/link_rows.h"
#include "calibrate/validate/marks.h"
#include "calibrate/validate/serving_rows.h"
#include "calibrate/validate/serving_time.h"
#include "sim/gpu/sample_cost.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

Sample sample_of(const char* kernel, std::vector<std::int64_t> shape, double seconds) {
  Sample sample;
  sample.machine = "round";
  sample.source = "aiconfigurator test";
  sample.variant = "v";
  sample.kernel = kernel;
  sample.shape = std::move(shape);
  sample.dtype = "bf16";
  sample.seconds = seconds;
  return sample;
}

const ValidationRow* find(const std::vector<ValidationRow>& rows, const char* what,
                          const char* domain) {
  for (const ValidationRow& row : rows) {
    if (row.what == what && row.domain == domain) return &row;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("ErrorSample: nearest ranks, the mean, and the ratio of the median") {
  ErrorSample errors;
  for (const double percent : {1.0, 2.0, 3.0, 4.0, 30.0}) errors.add(1 + percent / 100, 1);
  ValidationRow row;
  row.mark = 0.0801;
  errors.fill(row);
  CHECK(row.n == 5);
  CHECK(row.mape == doctest::Approx(0.08));
  CHECK(row.median == doctest::Approx(0.03));
  CHECK(row.p90 == doctest::Approx(0.30));
  CHECK(row.worst == doctest::Approx(0.30));
  CHECK(row.median_ratio == doctest::Approx(1 / 1.03));
  CHECK(*row.holds);
  row.mark = 0.0799;
  errors.fill(row);
  CHECK_FALSE(*row.holds);
  row.statistic = Statistic::median;
  errors.fill(row);
  CHECK(*row.holds);
  row.statistic = Statistic::worst;
  errors.fill(row);
  CHECK_FALSE(*row.holds);
  CHECK_FALSE(all_hold({row}));
  CHECK_THROWS_AS(errors.add(0, 1), std::logic_error);
}

TEST_CASE("kernel_rows: held-out shapes of the domain only, 10 % off as made") {
  const GpuSpec gpu = round_gpu();
  const SampleCost cost(gpu);
  std::vector<Sample> samples;
  std::int64_t expected = 0;
  for (std::int64_t m = 1; m <= 256; m *= 2) {
    for (const std::int64_t n : {2048, 4096, 8192}) {
      Sample sample = sample_of("gemm", {m, n, 4096}, 1);
      sample.seconds = *cost.seconds(sample) / 1.1;  // the prediction is 10 % too long
      if (held_out(sample)) ++expected;
      samples.push_back(sample);
    }
  }
  samples.push_back(sample_of("gemm", {16, 256, 256}, 1));  // outside the domain
  Sample aside = samples.front();
  aside.set_aside = "throttled";
  aside.seconds = 1;
  samples.push_back(aside);
  const auto rows = kernel_rows(samples, {gpu});
  const ValidationRow* row = find(rows, "gemm", "held out");
  REQUIRE(row != nullptr);
  CHECK(row->n == expected);
  CHECK(row->mape == doctest::Approx(0.1));
  CHECK(row->median_ratio == doctest::Approx(1 / 1.1));
  // The table of the other half is exact on this data: the factor is the same everywhere.
  const auto by_table = table_rows(samples, {gpu});
  const ValidationRow* table = find(by_table, "table_gemm", "inside the grid");
  CHECK((table == nullptr || table->mape < 1e-9));
}

TEST_CASE("marks: of the GPU, and of the library where one is named") {
  CHECK(mark_of("gemm", "H100-SXM", "aiconfigurator")->limit == doctest::Approx(0.059));
  CHECK(mark_of("decode", "A100-80-SXM", "aiconfigurator vllm-0.14.0"));
  CHECK_FALSE(mark_of("decode", "A100-80-SXM", "aiconfigurator sglang-0.5.10"));
  CHECK_FALSE(mark_of("gemm", "L20", "anything"));
  CHECK(mark_of("e2e_tpot", "H100-SXM", "vllm")->statistic == Statistic::median_ratio);
}

TEST_CASE("ServingTime: a batch is its prefill and its steps; a gap holds the others' prefills") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  const ServingTime time(cost);
  // Two output tokens: the prefill and one step.
  CHECK(time.batch(4, 128, 2) == doctest::Approx(time.prefill(4, 128) + time.step(4, 129)));
  // One sequence: nobody else's prefill in between.
  CHECK(time.token_gap(1, 128, 64) == doctest::Approx(time.step(1, 160)));
  CHECK(time.token_gap(9, 128, 64) ==
        doctest::Approx(time.step(9, 160) + 8.0 / 64 * time.prefill(1, 128)));
}

TEST_CASE("link_rows: an exact curve is met, a bent one is not") {
  std::vector<Sample> samples;
  for (std::int64_t bytes = 2; bytes <= 1 << 20; bytes *= 2) {
    Sample sample = sample_of("nic_message", {bytes, 1}, 0);
    sample.seconds = std::max(200e-9, static_cast<double>(bytes) / 12e9);
    samples.push_back(sample);
  }
  auto rows = link_rows(samples);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].domain == "mark");
  CHECK(*rows[0].holds);
  CHECK(rows[1].worst < 1e-3);
  for (std::size_t i = 1; i < samples.size(); i += 2) samples[i].seconds *= 1.3;
  rows = link_rows(samples);
  CHECK_FALSE(*rows[0].holds);
}
