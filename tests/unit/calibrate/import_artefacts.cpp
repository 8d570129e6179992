// The rules that set rows aside, at their borders.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "calibrate/import/artefacts.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

using Counts = std::map<std::string, std::int64_t>;

Sample sample_of(const char* kernel, std::vector<std::int64_t> shape, double seconds,
                 const char* dtype = "bf16", const char* machine = "G") {
  Sample sample;
  sample.machine = machine;
  sample.source = "s";
  sample.variant = "v";
  sample.kernel = kernel;
  sample.shape = std::move(shape);
  sample.dtype = dtype;
  sample.seconds = seconds;
  return sample;
}

// 1 TB/s; 1.2 x L2 are 4'915'200 B.
std::vector<GpuSpec> known() {
  GpuSpec gpu;
  gpu.name = "G";
  gpu.memory_bandwidth = 1e12;
  gpu.l2 = Bytes(4'096'000);
  return {gpu};
}

std::string rule_of(const Sample& sample, const std::vector<GpuSpec>& gpus = known()) {
  std::vector<Sample> samples{sample};
  set_artefacts_aside(samples, gpus);
  return samples[0].set_aside;
}

}  // namespace

// 2 (K and V) x 2 B x kv x 8 heads x 128: 4096 B a token of KV.
TEST_CASE("decode over at most 1.2 x L2") {
  const auto decode = [](std::int64_t kv, const char* dtype = "bf16") {
    return sample_of("decode_attention", {1, kv, 32, 8, 128}, 1, dtype);
  };
  CHECK(rule_of(decode(1200)) == "l2_resident");
  CHECK(rule_of(decode(1201)) == "");
  CHECK(rule_of(decode(2400, "fp8")) == "l2_resident");
  CHECK(rule_of(decode(2401, "fp8")) == "");
  // Sequences count.
  CHECK(rule_of(sample_of("decode_attention", {100, 12, 32, 8, 128}, 1)) == "l2_resident");
  CHECK(rule_of(sample_of("decode_attention", {100, 13, 32, 8, 128}, 1)) == "");
}

TEST_CASE("operands faster than DRAM can deliver them") {
  // 10'000 tokens of KV are 40.96 MB: 40.96 us at 1 TB/s.
  CHECK(rule_of(sample_of("decode_attention", {1, 10'000, 32, 8, 128}, 40.9e-6)) == "l2_resident");
  CHECK(rule_of(sample_of("decode_attention", {1, 10'000, 32, 8, 128}, 41.0e-6)) == "");
  // 2 B x (two operands + result) of 1e6 elements: 6 us; 8-bit operands: 4 us.
  CHECK(rule_of(sample_of("gemm", {1000, 1000, 1000}, 5.99e-6)) == "l2_resident");
  CHECK(rule_of(sample_of("gemm", {1000, 1000, 1000}, 6.01e-6)) == "");
  CHECK(rule_of(sample_of("gemm", {1000, 1000, 1000}, 3.99e-6, "fp8")) == "l2_resident");
  CHECK(rule_of(sample_of("gemm", {1000, 1000, 1000}, 4.01e-6, "fp8")) == "");
}

TEST_CASE("without the GPU's L2 the rule is not applied, and the machine named") {
  const Sample small = sample_of("decode_attention", {1, 1, 32, 8, 128}, 1, "bf16", "other");
  CHECK(rule_of(small) == "");
  const std::vector<Sample> samples{small, sample_of("gemm", {1, 1, 1}, 1),
                                    sample_of("copy", {8}, 1, "", "nic")};
  CHECK(machines_unchecked(samples, known()) == std::vector<std::string>{"other"});
}

TEST_CASE("throttled: over 1.5 x the time of the next larger m") {
  const auto run = [](double first, double second) {
    // Out of order, and beside a row of another n that is slower still.
    std::vector<Sample> samples{sample_of("gemm", {32, 64, 64}, second),
                                sample_of("gemm", {16, 64, 64}, first),
                                sample_of("gemm", {16, 128, 64}, 9)};
    set_artefacts_aside(samples, {});
    CHECK(samples[0].set_aside.empty());
    CHECK(samples[2].set_aside.empty());
    return samples[1].set_aside;
  };
  CHECK(run(1.5, 1.0) == "");
  CHECK(run(1.501, 1.0) == "throttled");
}

TEST_CASE("duplicates: the first of one machine, source, variant, type and shape stays") {
  std::vector<Sample> samples(6, sample_of("gemm", {16, 64, 64}, 1));
  samples[1].seconds = 1.1;
  samples[2].variant = "w";
  samples[3].machine = "H";
  samples[4].dtype = "fp8";
  samples.push_back(sample_of("serving_batch", {1, 2, 3, 1}, 1));
  samples.push_back(samples.back());  // a repeated run
  const Counts counts = set_artefacts_aside(samples, {});
  CHECK(counts == Counts{{"duplicate", 2}});
  CHECK(samples[0].set_aside.empty());
  CHECK(samples[1].set_aside == "duplicate");
  CHECK(samples[5].set_aside == "duplicate");
}

TEST_CASE("copied: twenty rows, every one equal to another machine's to the digit") {
  const auto run = [](int rows, double last) {
    std::vector<Sample> samples;
    for (const char* machine : {"G", "H"}) {
      for (int i = 0; i < rows; ++i) {
        const double seconds = machine[0] == 'H' && i + 1 == rows ? last : 1 + i;
        samples.push_back(sample_of("all_reduce", {8 * (i + 1), 2}, seconds, "fp16", machine));
      }
    }
    Counts counts = set_artefacts_aside(samples, {});
    for (int i = 0; i < rows; ++i) CHECK(samples[static_cast<std::size_t>(i)].set_aside.empty());
    return counts;
  };
  CHECK(run(20, 20) == Counts{{"copied", 20}});
  CHECK(run(20, 20.5).empty());
  CHECK(run(19, 19).empty());
}

TEST_CASE("a rule that stands is kept and counted") {
  Sample broken = sample_of("decode_attention", {1, 1, 32, 8, 128}, 1);
  broken.set_aside = "broken_upstream";
  std::vector<Sample> samples{broken};
  CHECK(set_artefacts_aside(samples, known()) == Counts{{"broken_upstream", 1}});
}

TEST_CASE("the help names every rule") {
  const std::string help = artefact_rules();
  for (const char* rule : {"duplicate", "copied", "l2_resident", "throttled", "broken_upstream"}) {
    CHECK(help.find(rule) != std::string::npos);
  }
}
