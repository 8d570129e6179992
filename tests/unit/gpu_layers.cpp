// What a layer is made of: sums of kernels, tensor parallelism, experts, selection.

#include <doctest/doctest.h>

#include <cmath>

#include "gpu_support.h"
#include "sim/kv/payload.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

Work prefill(std::int64_t tokens, std::int64_t context) {
  Work work{.kind = WorkKind::prefill_layer, .layer = LayerId(1)};
  work.new_tokens = tokens;
  work.context_tokens = context;
  return work;
}

Work decode(WorkKind kind, std::int64_t batch) {
  return Work{.kind = kind, .layer = LayerId(1), .batch = batch};
}

// Compute-bound GEMMs, no launches, no memory: times are FLOPs over 50 TFLOP/s.
GpuSpec flops_only() {
  GpuSpec gpu = round_gpu();
  gpu.memory_bandwidth = 1e30;
  gpu.gemm_t0 = gpu.prefill_t0 = gpu.prefix_t0 = gpu.decode_t0 = gpu.small_kernel_t0 = 0;
  gpu.prefix_kappa = 0;
  gpu.all_reduce = {{2, {0, 1e30}}};
  return gpu;
}

}  // namespace

TEST_CASE("prefill_layer: 2 x parameters x tokens plus the attention square") {
  const ModelSpec model = round_model();
  const CostModel cost(flops_only(), model, 1, false);
  const double body = 2.4e6 + 12e6;
  // Causal, 2 h d s^2, s in whole tiles of 64.
  CHECK(time_of(cost, prefill(2048, 2048)) ==
        doctest::Approx((2 * body * 2048 + 2 * 1000.0 * 2048 * 2048) / 50e12).epsilon(1e-6));
  CHECK(time_of(cost, prefill(2000, 2000)) ==
        doctest::Approx((2 * body * 2000 + 2 * 1000.0 * 2048 * 2048) / 50e12).epsilon(1e-6));
  // 500 new after 1500: 4 h d c (kv + (c + 128)/2).
  CHECK(time_of(cost, prefill(500, 2000)) ==
        doctest::Approx((2 * body * 500 + 4 * 1000.0 * 500 * (1500 + 314)) / 50e12).epsilon(1e-6));
  // Four prompts of 512: the matrices of 2048 tokens, a quarter of the square.
  Work four = prefill(2048, 2048);
  four.batch = 4;
  CHECK(time_of(cost, four) ==
        doctest::Approx((2 * body * 2048 + 2 * 1000.0 * 2048 * 512) / 50e12).epsilon(1e-6));
  CHECK(time_of(cost, prefill(0, 2000)) == 0);
  CHECK_THROWS_AS(cost.duration(prefill(10, 5)), std::logic_error);
}

TEST_CASE("prefill_layer: norms and adds are a share of GEMM time, at least their launches") {
  GpuSpec gpu = flops_only();
  gpu.other_share = 0.1;
  gpu.small_kernel_t0 = 2e-6;
  const CostModel cost(gpu, round_model(), 1, false);
  const CostModel bare(flops_only(), round_model(), 1, false);
  const double gemms = 2 * 14.4e6 / 50e12;  // a token
  CHECK(time_of(cost, prefill(20'000, 20'000)) - time_of(bare, prefill(20'000, 20'000)) ==
        doctest::Approx(0.1 * gemms * 20'000).epsilon(1e-6));
  CHECK(time_of(cost, prefill(10, 10)) - time_of(bare, prefill(10, 10)) ==
        doctest::Approx(5 * 2e-6).epsilon(1e-4));
}

TEST_CASE("tensor parallelism: halves the work and pays two all-reduces a layer") {
  const CostModel one(flops_only(), round_model(), 1, false);
  const CostModel two(flops_only(), round_model(), 2, false);
  CHECK(time_of(two, prefill(2000, 2000)) ==
        doctest::Approx(time_of(one, prefill(2000, 2000)) / 2).epsilon(1e-6));
  GpuSpec gpu = flops_only();
  gpu.all_reduce = {{2, {5e-6, 50e9}}};
  const CostModel paying(gpu, round_model(), 2, false);
  // 2000 tokens x 1000 x 2 B = 4 MB: 5 us + 80 us, twice.
  CHECK(time_of(paying, prefill(2000, 2000)) - time_of(two, prefill(2000, 2000)) ==
        doctest::Approx(170e-6).epsilon(1e-6));
  CHECK(time_of(paying, decode(WorkKind::decode_ffn, 2)) -
            time_of(two, decode(WorkKind::decode_ffn, 2)) ==
        doctest::Approx(2 * (5e-6 + 2 * 1000 * 2 / 50e9)).epsilon(1e-6));
}

TEST_CASE("tensor parallelism: KV heads divide, the latent does not") {
  Work rows = decode(WorkKind::decode_attention, 4);
  rows.attended_rows = 2'000'000;
  const double one = time_of(CostModel(round_gpu(), round_model(), 1, false), rows) - 10e-6;
  const double two = time_of(CostModel(round_gpu(), round_model(), 2, false), rows) - 10e-6;
  const double four = time_of(CostModel(round_gpu(), round_model(), 4, false), rows) - 10e-6;
  CHECK(two == doctest::Approx(one / 2).epsilon(1e-6));
  CHECK(four == doctest::Approx(two).epsilon(1e-6));  // 2 heads on 4 ranks: each is kept twice

  ModelSpec latent = round_model();
  for (LayerSpec& layer : latent.layers) {
    layer.attention = AttentionKind::latent;
    layer.kv_heads = 1;
    layer.k_width = 576;
    layer.v_width = 0;
  }
  GpuSpec gpu = round_gpu();
  gpu.peak_flops = 1e30;  // memory decides
  const double a = time_of(CostModel(gpu, latent, 1, false), rows);
  const double b = time_of(CostModel(gpu, latent, 2, false), rows);
  CHECK(a == doctest::Approx(10e-6 + 2e6 * 1152 / 0.5e12).epsilon(1e-6));
  CHECK(b == a);
}

TEST_CASE("latent attention: many heads over one vector are bound by compute") {
  ModelSpec model = round_model();
  for (LayerSpec& layer : model.layers) {
    layer.attention = AttentionKind::latent;
    layer.query_heads = 128;
    layer.kv_heads = 1;
    layer.k_width = 576;
    layer.v_width = 0;
  }
  Work rows = decode(WorkKind::decode_attention, 4);
  rows.attended_rows = 1'000'000;
  // 1e6 x 128 heads x 2 FLOP x (576 + 576) = 2.949e11 at 50 TFLOP/s = 5.9 ms; memory 2.3 ms.
  CHECK(time_of(CostModel(round_gpu(), model, 1, false), rows) ==
        doctest::Approx(10e-6 + 1e6 * 128 * 2 * 1152 / 50e12).epsilon(1e-6));
}

TEST_CASE("experts: a batch reads those that it touches") {
  ModelSpec model = round_model();
  for (LayerSpec& layer : model.layers) {
    layer.ffn_experts = 8;
    layer.ffn_experts_per_token = 2;
    layer.ffn_parameters = 8 * 1'000'000 + 500'000;  // half a million are shared
    layer.ffn_active_parameters = 2 * 1'000'000 + 500'000;
    layer.attention_parameters = 0;
    layer.query_heads = layer.kv_heads = 0;
  }
  GpuSpec gpu = round_gpu();
  gpu.peak_flops = 1e30;
  gpu.gemm_t0 = gpu.small_kernel_t0 = 0;
  const CostModel cost(gpu, model, 1, false);
  for (const std::int64_t m : {1, 4, 32, 1000}) {
    CAPTURE(m);
    // Expected number of distinct experts: 8 (1 - (3/4)^m); one token touches exactly 2.
    const double touched = 8 * (1 - std::pow(0.75, static_cast<double>(m)));
    const double bytes = (0.5e6 + touched * 1e6) * 2 + 2 * static_cast<double>(m) * 1000 * 2 * 3;
    CHECK(time_of(cost, decode(WorkKind::decode_ffn, m)) ==
          doctest::Approx(bytes / 0.5e12).epsilon(1e-6));
  }
}

TEST_CASE("windows_as_full: a windowed layer costs like a full one") {
  ModelSpec model = round_model();
  model.layers[1].attention = AttentionKind::windowed;
  model.layers[1].window = 256;
  const CostModel exact(round_gpu(), model, 1, false);
  const CostModel full(round_gpu(), model, 1, true);
  const CostModel plain(round_gpu(), round_model(), 1, false);
  CHECK(exact.duration(prefill(8000, 8000)) < full.duration(prefill(8000, 8000)));
  CHECK(full.duration(prefill(8000, 8000)) == plain.duration(prefill(8000, 8000)));
}

TEST_CASE("recurrent layers: time a token does not grow with the context") {
  ModelSpec model = round_model();
  model.layers[1].attention = AttentionKind::linear;
  model.layers[1].state = Bytes(5'000'000);
  const CostModel cost(round_gpu(), model, 1, false);
  CHECK(cost.duration(prefill(500, 500)) == cost.duration(prefill(500, 50'000)));
  // 4 sequences x 5 MB read and written at 0.5 TB/s.
  CHECK(time_of(cost, decode(WorkKind::decode_attention, 4)) ==
        doctest::Approx(10e-6 + 2 * 4 * 5e6 / 0.5e12).epsilon(1e-6));
}

TEST_CASE("select: metadata bytes dominate long contexts; InfiniGen's projection short ones") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  Work hata = decode(WorkKind::select, 6);
  hata.context_tokens = 100'000'000;
  hata.selector_bytes = 18;
  hata.hashed = true;
  // Each (row, head): 18 B of code and norm + 12 B of score traffic, 2 heads, 0.5 TB/s.
  CHECK(time_of(cost, hata) == doctest::Approx(1e8 * 2 * 30 / 0.5e12).epsilon(1e-2));
  Work partial = hata;
  partial.hashed = false;
  partial.selector_bytes = 50;
  // 50 B of partial keys + 12 B of scores a kv head, and 4 B of softmax a query head.
  CHECK(time_of(cost, partial) == doctest::Approx(1e8 * (2 * 62 + 10 * 4) / 0.5e12).epsilon(1e-2));
  partial.context_tokens = hata.context_tokens = 1;
  // The second query projection: 1000 x 1000 weights read once, 4 us, and its launch.
  CHECK(time_of(cost, partial) - time_of(cost, hata) > 13e-6);
  partial.selector_bytes = 0;
  CHECK_THROWS_AS(cost.duration(partial), std::logic_error);
}

TEST_CASE("quantise, head, host step and gather") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  Work work{.kind = WorkKind::quantise};
  work.elements = 1'000'000'000;
  work.kv_bits = 8;  // 2 B read, 1 B written
  CHECK(time_of(cost, work) == doctest::Approx(3e9 / 0.5e12 + 4e-6).epsilon(1e-6));
  work.kv_bits = 2;
  CHECK(time_of(cost, work) ==
        doctest::Approx(1e9 * (2 + hack_bytes_per_element(64)) / 0.5e12 + 4e-6).epsilon(1e-6));
  CHECK(time_of(cost, Work{.kind = WorkKind::host_step}) == doctest::Approx(1e-3));
  Work gather{.kind = WorkKind::gather_host};
  gather.bytes = Bytes(20'000'000);
  CHECK(time_of(cost, gather) == doctest::Approx(1e-3));
  // The LM head of one token: 1e7 weights of 2 B at 0.5 TB/s = 40 us, launches and sampling beside.
  const double head = time_of(cost, decode(WorkKind::decode_head, 1));
  CHECK(head > 50e-6);
  CHECK(head < 65e-6);
  CHECK(time_of(cost, Work{.kind = WorkKind::prefill_head}) == doctest::Approx(head));
}

TEST_CASE("a layer that the model does not have is refused") {
  const CostModel cost(round_gpu(), round_model(), 1, false);
  Work work = decode(WorkKind::decode_qkv, 1);
  work.layer = LayerId(4);
  CHECK_THROWS_AS(cost.duration(work), std::logic_error);
  work.layer = LayerId();
  CHECK_THROWS_AS(cost.duration(work), std::logic_error);
}
