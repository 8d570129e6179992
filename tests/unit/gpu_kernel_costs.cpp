// Kernels whose cost a hardware file has as measured: their work, their time, and where the cost
// model takes them instead of its own constants.

#include <doctest/doctest.h>

#include <cmath>

#include "gpu_support.h"
#include "sim/gpu/kernel_work.h"
#include "sim/gpu/sample_cost.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

// A sum of one microsecond and bytes over 1 GB/s: what a kernel took is what it moved.
KernelCost by_bytes() { return {1e-6, 0, 1e9, 0, 0, 0, 1}; }

Work layer_work(WorkKind kind, std::int64_t batch) {
  return Work{.kind = kind, .layer = LayerId(1), .batch = batch};
}

double bytes_of(const char* kernel, std::vector<std::int64_t> shape) {
  return kernel_work(kernel, shape)->bytes;
}

}  // namespace

TEST_CASE("kernel work: counts by hand") {
  // 2 x 3 x 5 x 7; fp32 operands.
  CHECK(kernel_work("gemm", {3, 5, 7}, 4)->flops == 210);
  CHECK(kernel_work("gemm", {3, 5, 7}, 4)->bytes == 4 * (21 + 35 + 15));
  // 2 sequences of 100 keys, 8 query heads on 2 kv heads of 64: 4 FLOPs a pair and channel.
  const auto decode = kernel_work("decode_attention", {2, 100, 8, 2, 64});
  CHECK(decode->flops == 4.0 * 2 * 8 * 100 * 64);
  CHECK(decode->bytes == 2.0 * 2 * 2 * 100 * 64 * 2);
  // A fifth of it in runs of 4: 5 runs a sequence and kv head.
  const auto sparse = kernel_work("sparse_attention", {2, 100, 20, 4, 8, 2, 64});
  CHECK(sparse->flops == decode->flops / 5);
  CHECK(sparse->items == 2 * 2 * 5);
  CHECK(kernel_work("kv_gather", {2, 100, 20, 4, 2, 64})->bytes == 2 * sparse->bytes);
  // Causal: 1 + 2 + 3 + 4 pairs, and 2 cached ones more each.
  CHECK(kernel_work("prefill_attention", {1, 4, 1, 1, 64})->flops == 4.0 * 10 * 64);
  CHECK(kernel_work("prefix_attention", {1, 4, 2, 1, 1, 64})->flops == 4.0 * 18 * 64);
  // 2 bit, partitions of 64: 2/8 + 5/64 bytes an element; four sinks and an open block in 16 bit.
  CHECK(kernel_work("hack_attention", {1, 132, 1, 1, 128, 2, 64})->bytes ==
        2 * 128 * 128 * (0.25 + 5.0 / 64) + 4 * 2 * 128 * 2);
  CHECK(kernel_work("hack_attention", {2, 67, 1, 1, 128, 2, 64})->bytes == 2 * 67 * 2 * 128 * 2);
  // Five query heads a group: the codes are taken apart twice; a 16-bit element counts as ten.
  CHECK(kernel_work("hack_attention", {1, 132, 5, 1, 128, 2, 64})->items ==
        2 * 2 * 128 * 128 + 10 * 4 * 2 * 128);
  CHECK_FALSE(kernel_work("nic_message", {1, 1}).has_value());
  CHECK_THROWS_AS(kernel_work("gemm", {1, 2}), std::logic_error);
  for (const std::string& kernel : costed_kernels()) {
    CAPTURE(kernel);
    const auto work =
        kernel_work(kernel, std::vector<std::int64_t>(sample_dimensions(kernel).size(), 64));
    REQUIRE(work.has_value());
    CHECK(work->bytes > 0);
  }
}

TEST_CASE("kernel cost: launch plus the smooth maximum of what it has") {
  const KernelWork work{1e9, 1e6, 100};
  CHECK(seconds_of({1e-5, 0, 0, 0, 0, 0, 2}, work) == 1e-5);
  CHECK(seconds_of({1e-5, 0, 1e9, 0, 0, 0, 2}, work) == doctest::Approx(1e-5 + 1e-3));
  // 1 ms each: three equal terms are 3^(1/p) of one.
  CHECK(seconds_of({0, 1e12, 1e9, 1e-5, 0, 0, 2}, work) == doctest::Approx(std::sqrt(3) * 1e-3));
  CHECK(seconds_of({0, 1e12, 1e9, 1e-5, 0, 0, 1}, work) == doctest::Approx(3e-3));
  CHECK(seconds_of({0, 1e12, 1e10, 0, 0, 0, 100}, work) == doctest::Approx(1e-3).epsilon(1e-3));
}

TEST_CASE("kernel cost: more work than one thread does alone wakes the others") {
  const KernelCost cost{1e-6, 0, 1e9, 0, 50e-6, 100'000, 1};
  CHECK(seconds_of(cost, {0, 10'000, 0}) == doctest::Approx(1e-6 + 10e-6).epsilon(1e-3));
  CHECK(seconds_of(cost, {0, 1'000'000, 0}) == doctest::Approx(1e-6 + 50e-6 + 1e-3).epsilon(1e-3));
  CHECK(seconds_of(cost, {0, 100'000, 0}) == doctest::Approx(1e-6 + 25e-6 + 1e-4));
}

TEST_CASE("sample cost: the measured cost of a kernel comes before any formula") {
  GpuSpec gpu = round_gpu();
  Sample sample;
  sample.kernel = "topk";
  sample.shape = {2, 1000, 100};
  CHECK_FALSE(SampleCost(gpu).seconds(sample).has_value());
  gpu.costs["topk"] = by_bytes();
  CHECK(*SampleCost(gpu).seconds(sample) == doctest::Approx(1e-6 + 8800e-9));
}

TEST_CASE("selection: HATA from encodes, scores, top-k and split, where all are measured") {
  GpuSpec gpu = round_gpu();
  Work work = layer_work(WorkKind::select, 2);
  work.context_tokens = 2000;
  work.selector_bytes = 18;
  work.hashed = true;
  const double before = time_of(CostModel(gpu, round_model(), 1, false), work);
  for (const char* kernel : {"hata_encode", "hata_score", "topk"}) gpu.costs[kernel] = by_bytes();
  // Without index_split the constants of before stand.
  CHECK(time_of(CostModel(gpu, round_model(), 1, false), work) == before);
  gpu.costs["index_split"] = by_bytes();
  const CostModel cost(gpu, round_model(), 1, false);
  const double bytes = bytes_of("hata_encode", {2, 10, 2, 100}) +
                       bytes_of("hata_encode", {2, 2, 2, 100}) +
                       bytes_of("hata_score", {2, 1000, 10, 2}) + bytes_of("topk", {4, 1000, 200}) +
                       bytes_of("index_split", {2, 2, 200, 1000});
  CHECK(time_of(cost, work) == doctest::Approx(5e-6 + bytes / 1e9));
  // InfiniGen's kernels are not there: its constants stand.
  work.hashed = false;
  CHECK(time_of(cost, work) == time_of(CostModel(round_gpu(), round_model(), 1, false), work));
  CHECK(cost.usage().rests_on("kernel_costs.hata_score.launch", false, 1));
  CHECK_FALSE(cost.usage().rests_on("kernel_costs.infinigen_score.launch", false, 1));
}

TEST_CASE("metadata, quantisation and 2-bit attention by their kernels") {
  GpuSpec gpu = round_gpu();
  gpu.costs["hata_encode"] = gpu.costs["hack_append"] = gpu.costs["hack_attention"] = by_bytes();
  const CostModel cost(gpu, round_model(), 1, false);
  Work build = layer_work(WorkKind::build_metadata, 0);
  build.new_tokens = 500;
  build.selector_bytes = 18;
  build.hashed = true;
  CHECK(time_of(cost, build) ==
        doctest::Approx(1e-6 + bytes_of("hata_encode", {500, 2, 2, 100}) / 1e9));
  Work quantise = layer_work(WorkKind::quantise, 0);
  quantise.elements = 256'000;
  quantise.kv_bits = 2;
  CHECK(time_of(cost, quantise) ==
        doctest::Approx(1e-6 + bytes_of("hack_append", {1, 1000, 1, 128, 2, 64}) / 1e9));
  // Back from 2 bits is another kernel.
  quantise.kind = WorkKind::dequantise;
  CHECK(time_of(cost, quantise) ==
        time_of(CostModel(round_gpu(), round_model(), 1, false), quantise));
  Work decode = layer_work(WorkKind::decode_attention, 2);
  decode.attended_rows = 2 * 2 * 3000;
  decode.kv_bits = 2;
  CHECK(time_of(cost, decode) ==
        doctest::Approx(1e-6 + bytes_of("hack_attention", {2, 3000, 10, 2, 100, 2, 64}) / 1e9));
  decode.kv_bits = 16;
  CHECK(time_of(cost, decode) == time_of(CostModel(round_gpu(), round_model(), 1, false), decode));
}

TEST_CASE("layers: norms, rotation, gate and adds by their kernels instead of a share of GEMMs") {
  GpuSpec gpu = round_gpu();
  gpu.other_share = 0.5;
  const Work work = layer_work(WorkKind::decode_qkv, 4);
  const double with_share = time_of(CostModel(gpu, round_model(), 1, false), work);
  gpu.other_share = 0;
  gpu.small_kernel_t0 = 0;
  const double gemms = time_of(CostModel(gpu, round_model(), 1, false), work);
  CHECK(with_share == doctest::Approx(1.5 * gemms));
  gpu.other_share = 0.5;
  for (const char* kernel : {"rms_norm", "rope", "gated_unit", "add"})
    gpu.costs[kernel] = by_bytes();
  const double before = bytes_of("rms_norm", {4, 1000}) + bytes_of("rope", {4, 12, 100});
  CHECK(time_of(CostModel(gpu, round_model(), 1, false), work) ==
        doctest::Approx(gemms + 2e-6 + before / 1e9));
}

TEST_CASE("decode attention: a processor that computes no faster than it reads") {
  GpuSpec gpu = round_gpu();
  DecodeShape shape;
  shape.sequences = 1;
  shape.kv_tokens = 1000;
  shape.kv_heads = 2;
  shape.group = 8;
  shape.kv_bytes = 4.0 * 1000 * 2 * 100;
  const double bytes_alone = CostModel(gpu, round_model(), 1, false).decode_attention(shape);
  gpu.decode_ec = 0.001;  // 100 GFLOP/s; the exponent is 1: a sum
  const double flops = 4.0 * 1000 * 16 * 100;
  CHECK(CostModel(gpu, round_model(), 1, false).decode_attention(shape) ==
        doctest::Approx(bytes_alone + flops / 100e9));
}
