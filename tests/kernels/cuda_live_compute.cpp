// Compute of a live run by CUDA kernels, on the host executor: every kind of work ends, selections
// are real, copies move the bytes. Threads and streams are the CPU's test
// (tests/live/compute_cpu.cpp).

#include <doctest/doctest.h>

#include "calibrate/live/compute/gpu/cuda_kernels.h"
#include "calibrate/live/compute/gpu/cuda_mover.h"
#include "sim/gpu/cost_model.h"

namespace kvlane::live {
namespace {

GpuSpec some_gpu() {
  GpuSpec gpu;
  gpu.name = "executor";
  gpu.peak_flops = gpu.memory_bandwidth = 1e12;
  gpu.gemm_ec = gpu.gemm_em = gpu.gemm_p = gpu.prefill_ec = gpu.prefill_em = gpu.prefill_p = 1;
  gpu.prefix_ec = gpu.prefix_p = gpu.decode_em = gpu.decode_p = gpu.elementwise_em = 1;
  gpu.sm_count = 1;
  gpu.hack_unpack_rate = 1e12;
  gpu.host_step = 1e-4;
  return gpu;
}

ModelSpec tiny_model() {
  ModelSpec model;
  model.name = "tiny";
  model.hidden = 128;
  model.vocabulary = 256;
  LayerSpec layer;
  layer.query_heads = 4;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 64;
  layer.attention_parameters = 128 * (4 + 2 + 2 + 4) * 64;
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 128 * 256;
  model.layers.assign(2, layer);
  return model;
}

Work work_of(WorkKind kind) {
  Work work;
  work.kind = kind;
  work.layer = LayerId(1U);
  work.batch = kind == WorkKind::prefill_layer ? 1 : 2;
  work.new_tokens = 40;
  work.context_tokens = kind == WorkKind::prefill_layer ? 40 : 200;
  work.attended_rows = 400;
  work.elements = 4096;
  work.kv_bits = kind == WorkKind::quantise || kind == WorkKind::dequantise ? 8 : 16;
  work.selector_bytes = 18;
  work.hashed = true;
  return work;
}

}  // namespace

TEST_CASE("a GPU's stream: every kind of work ends, in bounded memory") {
  const CostModel cost(some_gpu(), tiny_model(), 1, false);
  KernelCrew crew(cost, std::make_unique<CudaKernels>(0, 4 << 20));
  for (const WorkKind kind :
       {WorkKind::prefill_layer, WorkKind::prefill_head, WorkKind::build_metadata,
        WorkKind::quantise, WorkKind::dequantise, WorkKind::decode_qkv, WorkKind::select,
        WorkKind::decode_attention, WorkKind::decode_ffn, WorkKind::decode_head}) {
    for (const int bits : {16, 2}) {
      Job job;
      job.work = work_of(kind);
      if (bits == 2 && kind == WorkKind::decode_attention) job.work.kv_bits = 2;
      CHECK(crew.begin(job, false));
      REQUIRE(job.calls != nullptr);
      CHECK_FALSE(job.calls->calls.empty());
      CHECK(crew.step(job));  // all of it, then one wait
    }
  }
  Job job;
  job.work = work_of(WorkKind::decode_head);
  job.work.batch = 5000;
  CHECK_THROWS_AS(crew.begin(job, false), std::runtime_error);
  CHECK_FALSE(crew.begin(job, true));
}

TEST_CASE("a GPU's selection: ascending, in range, as many as asked, split without a loss") {
  const CostModel cost(some_gpu(), tiny_model(), 1, false);
  KernelCrew crew(cost, std::make_unique<CudaKernels>(0, 4 << 20));
  for (const bool hashed : {true, false}) {
    Job job;
    job.work = work_of(WorkKind::select);
    job.work.hashed = hashed;
    CHECK(crew.begin(job, false));
    CHECK(crew.step(job));
    REQUIRE(job.selection.has_value());
    const Selection& chosen = *job.selection;
    REQUIRE(chosen.chosen == 20);
    REQUIRE(chosen.index.size() == 2 * 2 * 20);
    for (std::size_t row = 0; row < 4; ++row) {
      std::int64_t sum = 0, parts = 0;
      for (std::size_t i = 0; i < 20; ++i) {
        const std::int32_t at = chosen.index[row * 20 + i];
        CHECK(at >= 0);
        CHECK(at < 100);
        if (i > 0) CHECK(at > chosen.index[row * 20 + i - 1]);
        sum += at;
        parts += chosen.split[row * 20 + i];
      }
      CHECK(sum == parts);
      CHECK(chosen.local_count[row] <= 20);
    }
  }
}

TEST_CASE("a GPU's copies end with their last byte, in launches as many as asked") {
  CudaMover mover(0, 1 << 20);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{5}, std::int64_t{3'000'001}}) {
    for (const CopyDirection direction :
         {CopyDirection::host_to_device, CopyDirection::device_to_host}) {
      Job job;
      job.kind = Job::Kind::copy;
      job.copy.direction = direction;
      job.copy.bytes = Bytes(bytes);
      job.copy.copies = 3;
      CHECK(mover.begin(job, false));
      CHECK(mover.step(job));
      CHECK(job.next == bytes);
    }
  }
}

}  // namespace kvlane::live
