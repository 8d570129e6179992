// Kernel formulas against hand-worked values on a GPU of round numbers (gpu_support.h).

#include <doctest/doctest.h>

#include <cmath>

#include "gpu_support.h"
#include "sim/kv/payload.h"

using namespace kvlane;
using namespace kvlane::test;

TEST_CASE("gemm: t0 + smooth maximum of compute and memory") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  // m = n = k = 1000: F = 2e9 at 50 TFLOP/s = 40 us; B = 2 (1e6 + 2e6) = 6e6 at 0.5 TB/s = 12 us.
  CHECK(cost.gemm(1000, 1000, 1000) ==
        doctest::Approx(10e-6 + std::sqrt(40e-6 * 40e-6 + 12e-6 * 12e-6)).epsilon(1e-9));
  CHECK(cost.gemm(0, 1000, 1000) == 0);
}

TEST_CASE("gemm: limits of the roofline") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  // One token on a large matrix: the weights' bytes alone, 2e8 B at 0.5 TB/s = 400 us.
  CHECK(cost.gemm(1, 10'000, 10'000) == doctest::Approx(410e-6).epsilon(1e-3));
  // A large cube: FLOPs alone, 2e12 x 8 at 50 TFLOP/s.
  CHECK(cost.gemm(20'000, 20'000, 20'000) == doctest::Approx(16e12 / 50e12).epsilon(1e-3));
}

TEST_CASE("prefill_attention: half of the square, occupancy, extra keys") {
  GpuSpec gpu = round_gpu();
  gpu.prefill_s0 = 100;
  gpu.prefill_w0 = 1;
  const CostModel cost(gpu, round_model(), 1, false);
  // 10 heads of 100 over 1280 tokens: w = 10 x 1280 / 128 / 100 = 1 wave, u = 1/2.
  // F = 2 x 10 x 100 x 1280 x 1380 = 3.53280e9 at 50 TFLOP/s / 2 = 141.312 us;
  // Q, O, K, V: 2 x 1280 x 100 x 2 x (10 + 2) B = 6.144e6 at 0.5 TB/s = 12.288 us.
  CHECK(cost.prefill_attention({10, 2, 100, 0}, 1280) ==
        doctest::Approx(10e-6 + 141.312e-6 + 12.288e-6).epsilon(1e-9));
  // A window of 128 keys: 2 (128 x 64 + 1152 x 128) + 1280 x 100 = 439296 instead of
  // 1280 x 1380 = 1766400.
  CHECK(cost.prefill_attention({10, 2, 100, 128}, 1280) ==
        doctest::Approx(22.288e-6 + 141.312e-6 * 439'296 / 1'766'400).epsilon(1e-9));
}

TEST_CASE("prefix_attention: FLOPs of long chunks, the serial walk of short ones") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  const AttentionShape shape{10, 2, 100, 0};
  // 4096 new after 16384: F = 4 x 10 x 100 x 4096 (16384 + 2048 + 64) = 3.0303e11 at 50 TFLOP/s.
  const double flops = 4.0 * 10 * 100 * 4096 * (16'384 + 2048 + 64);
  CHECK(cost.prefix_attention(shape, 4096, 16'384) ==
        doctest::Approx(10e-6 + flops / 50e12).epsilon(1e-9));
  // 16 new after 16384: 20 ns x (16384 + 8 + 64) = 329.12 us, whatever the FLOPs (21 us).
  CHECK(cost.prefix_attention(shape, 16, 16'384) ==
        doctest::Approx(10e-6 + 329.12e-6).epsilon(1e-9));
  // 64 and 128 tokens take nearly as long: the published observation.
  CHECK(cost.prefix_attention(shape, 128, 16'384) / cost.prefix_attention(shape, 16, 16'384) <
        1.01);
  // A window ends the walk.
  CHECK(cost.prefix_attention({10, 2, 100, 512}, 16, 16'384) ==
        doctest::Approx(10e-6 + 20e-9 * (512 + 64)).epsilon(1e-9));
  // Never faster than the chunk without a prefix.
  CHECK(cost.prefix_attention(shape, 4096, 1) >= cost.prefill_attention(shape, 4096));
}

TEST_CASE("decode_attention: bytes over bandwidth") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  CHECK(cost.decode_attention({.kv_bytes = 5e8}) == doctest::Approx(10e-6 + 1e-3));
  Work work{.kind = WorkKind::decode_attention, .layer = LayerId(0), .batch = 6};
  work.attended_rows = 1'000'000;  // x 200 values x 2 B = 4e8 B at 0.5 TB/s = 800 us
  CHECK(time_of(cost, work) == doctest::Approx(810e-6).epsilon(1e-6));
  work.kv_bits = 8;
  CHECK(time_of(cost, work) == doctest::Approx(410e-6).epsilon(1e-6));
  work.kv_bits = 4;  // 0.5625 of 8 bits
  CHECK(time_of(cost, work) == doctest::Approx(235e-6).epsilon(1e-6));
}

TEST_CASE("decode_attention: blocks of short sequences, and a walk where a head is not split") {
  GpuSpec gpu = round_gpu();
  gpu.decode_block = 25e-9;
  gpu.decode_walk = 20e-9;
  gpu.decode_p = 2;
  const CostModel cost(gpu, round_model(), 1, false);
  // 4 MB at 0.5 TB/s = 8 us; 100 sequences x 8 kv heads x 25 ns = 20 us.
  DecodeShape shape{
      .sequences = 100, .kv_tokens = 10'000, .kv_heads = 8, .group = 4, .kv_bytes = 4e6};
  CHECK(cost.decode_attention(shape) == doctest::Approx(10e-6 + std::hypot(8e-6, 20e-6)));
  // One query head a kv head: 10000 keys x 20 ns = 200 us.
  shape.group = 1;
  CHECK(cost.decode_attention(shape) == doctest::Approx(10e-6 + std::hypot(8e-6, 200e-6)));
  // 8-bit KV has constants of its own where they are known.
  gpu.decode_fp8_t0 = 3e-6;
  gpu.decode_fp8_em = 0.25;
  shape.fp8 = true;
  shape.group = 4;
  CHECK(CostModel(gpu, round_model(), 1, false).decode_attention(shape) ==
        doctest::Approx(3e-6 + std::hypot(16e-6, 20e-6)));
}

TEST_CASE("gemm: 8-bit weights have constants of their own where they are known") {
  GpuSpec gpu = round_gpu();
  ModelSpec model = round_model();
  model.weight_bytes = 1;
  // Without them: 16-bit activations, 1-byte weights at the 16-bit constants.
  CHECK(CostModel(gpu, model, 1, false).gemm(1, 10'000, 10'000) ==
        doctest::Approx(10e-6 + 1e8 / 0.5e12).epsilon(1e-3));
  gpu.peak_fp8_flops = 2e14;
  gpu.gemm_fp8_t0 = 5e-6;
  gpu.gemm_fp8_ec = 0.8;
  gpu.gemm_fp8_em = 0.25;
  gpu.gemm_fp8_p = 3;
  const CostModel cost(gpu, model, 1, false);
  CHECK(cost.gemm(1, 10'000, 10'000) == doctest::Approx(5e-6 + 1e8 / 0.25e12).epsilon(1e-3));
  CHECK(cost.gemm(20'000, 20'000, 20'000) == doctest::Approx(16e12 / 160e12).epsilon(1e-3));
}

TEST_CASE("mixed_attention: a chunk and decodes in one launch") {
  GpuSpec gpu = round_gpu();
  gpu.mixed_em = 0.25;
  const CostModel cost(gpu, round_model(), 1, false);
  // F = 4 x 10 x 100 x 1024 (4096 + 512 + 64) at 50 TFLOP/s, 1e8 B at 0.25 TB/s = 400 us.
  const double flops = 4.0 * 10 * 100 * 1024 * (4096 + 512 + 64);
  const DecodeShape decodes{
      .sequences = 8, .kv_tokens = 1000, .kv_heads = 2, .group = 5, .kv_bytes = 1e8};
  CHECK(cost.mixed_attention({10, 2, 100, 0}, 1024, 4096, decodes) ==
        doctest::Approx(10e-6 + flops / 50e12 + 400e-6).epsilon(1e-9));
  // A decode over 100000 keys walks longer: 20 ns each.
  CHECK(cost.mixed_attention({10, 2, 100, 0}, 16, 64,
                             {.sequences = 1, .kv_tokens = 100'000, .kv_heads = 2, .group = 5}) ==
        doctest::Approx(10e-6 + 2e-3).epsilon(1e-9));
}

TEST_CASE("decode_attention: HACK reads packed rows, the open partition in 16 bit, and unpacks") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  Work work{.kind = WorkKind::decode_attention, .layer = LayerId(0), .batch = 6};
  work.attended_rows = 1'000'000;
  work.kv_bits = 2;
  work.partition = 64;
  // Open: 6 x 2 heads x (4 + 31.5) = 426 rows of 400 B; packed: 999574 x 200 x 0.328125 B;
  // 65.77 MB at 0.5 TB/s = 131.5 us. Unpacking: 2e8 values at 1e12/s = 200 us wins.
  CHECK(time_of(cost, work) == doctest::Approx(210e-6).epsilon(1e-6));
  GpuSpec fast = round_gpu();
  fast.hack_unpack_rate = 1e15;
  const double bytes = 999'574.0 * 200 * 0.328125 + 426 * 400.0;
  CHECK(time_of(CostModel(fast, round_model(), 1, false), work) ==
        doctest::Approx(10e-6 + bytes / 0.5e12).epsilon(1e-6));
}

TEST_CASE("all_reduce: latency and rate of the degree; none for one GPU") {
  CHECK(CostModel(round_gpu(), round_model(), 1, false).all_reduce(1e6) == 0);
  CHECK(CostModel(round_gpu(), round_model(), 2, false).all_reduce(1e6) ==
        doctest::Approx(5e-6 + 20e-6));
  CHECK_THROWS_AS(CostModel(round_gpu(), round_model(), 3, false), std::logic_error);
}
