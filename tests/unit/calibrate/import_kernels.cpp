// Tables of kernels: every fixture's rows as samples, worked out by hand from the format's
// definition.

#include "tests/unit/calibrate/import_support.h"

using namespace kvlane;
using namespace kvlane::test;

TEST_CASE("aiconfigurator: GEMMs, whose data type and machine stand in the file's name") {
  check_samples(import_fixture("aiconfigurator", "aiconfigurator/gemm_bf16_h100_sxm.csv"),
                "aiconfigurator 095f58a", "Apache-2.0",
                {{"H100-SXM", "vllm-0.24.0", "gemm", {3, 512, 1024}, "bf16", 4e-6},
                 {"H100-SXM", "vllm-0.24.0", "gemm", {16, 512, 1024}, "bf16", 5e-6}});
  check_samples(import_fixture("aiconfigurator", "aiconfigurator/gemm_fp8_l40s.csv"),
                "aiconfigurator 095f58a", "Apache-2.0",
                {{"L40S", "vllm-0.24.0", "gemm", {7, 2048, 4096}, "fp8", 12.5e-6}});
}

TEST_CASE("aiconfigurator: decode's kv_len is the history before the query") {
  check_samples(
      import_fixture("aiconfigurator", "aiconfigurator/attn_prefill_a100_sxm.csv"),
      "aiconfigurator 095f58a", "Apache-2.0",
      {{"A100-80-SXM", "lib-9 flash", "prefill_attention", {2, 100, 32, 8, 128}, "bf16", 250e-6}});
  check_samples(
      import_fixture("aiconfigurator", "aiconfigurator/attn_decode_h200_sxm.csv"),
      "aiconfigurator 095f58a", "Apache-2.0",
      {{"H200-SXM", "lib-9 flash", "decode_attention", {4, 1, 16, 2, 128}, "bf16", 10.5e-6},
       {"H200-SXM", "lib-9 flash", "decode_attention", {4, 1024, 16, 2, 128}, "fp8", 20e-6}});
}

TEST_CASE("aiconfigurator: collectives count elements of two bytes") {
  const auto imported = import_fixture("aiconfigurator", "aiconfigurator/nccl.csv");
  check_samples(imported, "aiconfigurator 095f58a", "Apache-2.0",
                {{"H100-SXM", "nccl-2.99", "all_reduce", {1000, 4}, "bf16", 11e-6},
                 {"H100-SXM", "nccl-2.99", "all_to_all", {2000, 8}, "bf16", 12e-6},
                 {"H100-SXM", "nccl-2.99", "all_gather", {3000, 2}, "bf16", 13e-6},
                 {"H100-SXM", "nccl-2.99", "reduce_scatter", {4000, 2}, "bf16", 14e-6}});
  CHECK(imported.skipped == Skipped{{"collectives of other than 2-byte elements", 1}});
  check_samples(import_fixture("aiconfigurator", "aiconfigurator/custom_allreduce.csv"),
                "aiconfigurator 095f58a", "Apache-2.0",
                {{"L40S", "graph_reduce 9", "all_reduce", {256, 2}, "bf16", 6.1e-6}});
}

// Two ranks: 16 heads, 4 kv heads of 4096 / 32 = 128, half of 14336.
TEST_CASE("vidur: a layer's operations") {
  const auto imported = import_fixture("vidur", "vidur/mlp_a100_Tiny.csv");
  const char* gpu = "A100-80-SXM";
  check_samples(imported, "vidur 7d47513", "MIT",
                {{gpu, "attn_pre_proj", "gemm", {10, (16 + 2 * 4) * 128, 4096}, "fp16", 33e-6},
                 {gpu, "attn_post_proj", "gemm", {10, 4096, 2048}, "fp16", 25e-6},
                 {gpu, "mlp_up_proj", "gemm", {10, 14336, 4096}, "fp16", 142e-6},
                 {gpu, "mlp_down_proj", "gemm", {10, 4096, 7168}, "fp16", 76e-6},
                 {gpu, "input_layernorm", "elementwise", {2 * 2 * 10 * 4096}, "fp16", 5e-6},
                 {gpu, "post_attention_layernorm", "elementwise", {163840}, "fp16", 6e-6},
                 {gpu, "attn_rope", "elementwise", {2 * 2 * 10 * (2048 + 512)}, "fp16", 4e-6},
                 {gpu, "mlp_act", "elementwise", {2 * 3 * 10 * 7168}, "fp16", 11e-6}});
  CHECK(imported.skipped == Skipped{{"operations below the profiler's resolution", 1}});
}

TEST_CASE("vidur: collectives of one node, the first rank") {
  const auto reduce = import_fixture("vidur", "vidur/net_h100_dgx_all_reduce.csv");
  check_samples(
      reduce, "vidur 7d47513", "MIT",
      {{"H100-SXM", "nccl net_h100_dgx_all_reduce", "all_reduce", {4096, 4}, "fp16", 20e-6}});
  CHECK(reduce.skipped ==
        Skipped{{"collectives over several nodes", 1}, {"further ranks of one operation", 1}});
  const auto send = import_fixture("vidur", "vidur/net_a40_pairwise_nvlink_send_recv.csv");
  check_samples(
      send, "vidur 7d47513", "MIT",
      {{"A40", "nccl net_a40_pairwise_nvlink_send_recv", "send_recv", {2048, 2}, "fp16", 10e-6}});
}

TEST_CASE("vidur: attention, heads over two ranks") {
  const auto imported = import_fixture("vidur", "vidur/attention_a100_shape_old.csv");
  const char* gpu = "A100-80-SXM";
  const char* kernel = "old FlashAttention";
  check_samples(imported, "vidur 7d47513", "MIT",
                {{gpu, kernel, "decode_attention", {5, 640, 32, 4, 128}, "fp16", 30e-6},
                 {gpu, kernel, "prefill_attention", {1, 128, 32, 4, 128}, "fp16", 40e-6},
                 {gpu, kernel, "prefix_attention", {1, 128, 256, 32, 4, 128}, "fp16", 50e-6}});
  CHECK(imported.skipped == Skipped{{"attention below the profiler's resolution", 1}});
}

// Llama-3.1-8B over two ranks: 16 heads, 4 kv heads of 128.
TEST_CASE("llmservingsim: what is 0 is absent, which tells the four kinds of attention apart") {
  const char* gpu = "RTX-4090";
  check_samples(
      import_fixture("llmservingsim",
                     "llmservingsim/kernel_attention_RTX4090_Llama-3.1-8B_tp2.csv"),
      "LLMServingSim 5daddb2", "MIT",
      {{gpu, "vllm-0.19", "decode_attention", {3, 160, 16, 4, 128}, "bf16", 9.5e-6},
       {gpu, "vllm-0.19", "prefill_attention", {1, 64, 16, 4, 128}, "bf16", 12.5e-6},
       {gpu, "vllm-0.19", "prefix_attention", {1, 64, 320, 16, 4, 128}, "bf16", 15e-6},
       {gpu, "vllm-0.19", "mixed_attention", {64, 0, 2, 96, 16, 4, 128}, "bf16", 18e-6},
       {gpu, "vllm-0.19", "mixed_attention", {64, 320, 2, 96, 16, 4, 128}, "bf16", 21e-6}});
}

// Qwen3-32B over two ranks: hidden 5120, 32 heads and 4 kv heads of 128, FFN 12800.
TEST_CASE("llmservingsim: layers of a known model") {
  const auto imported =
      import_fixture("llmservingsim", "llmservingsim/kernel_dense_RTXPRO6000_Qwen3-32B_tp2.csv");
  const char* gpu = "RTX-PRO-6000";
  check_samples(
      imported, "LLMServingSim 5daddb2", "MIT",
      {{gpu, "vllm-0.19 qkv_proj", "gemm", {10, (32 + 2 * 4) * 128, 5120}, "bf16", 30e-6},
       {gpu, "vllm-0.19 o_proj", "gemm", {10, 5120, 4096}, "bf16", 25e-6},
       {gpu, "vllm-0.19 gate_up_proj", "gemm", {10, 25600, 5120}, "bf16", 150e-6},
       {gpu, "vllm-0.19 down_proj", "gemm", {10, 5120, 12800}, "bf16", 80e-6},
       {gpu, "vllm-0.19 act_fn", "elementwise", {2 * 3 * 10 * 12800}, "bf16", 4e-6},
       {gpu, "vllm-0.19 layernorm", "elementwise", {2 * 2 * 10 * 5120}, "bf16", 5e-6},
       {gpu, "vllm-0.19 rotary_emb", "elementwise", {2 * 2 * 10 * (4096 + 512)}, "bf16", 3e-6}});
  CHECK(imported.skipped == Skipped{{"operations of another kind", 2}});
  check_samples(import_fixture("llmservingsim",
                               "llmservingsim/kernel_per_sequence_RTX4090_Llama-3.1-8B_tp1.csv"),
                "LLMServingSim 5daddb2", "MIT",
                {{"RTX-4090", "vllm-0.19 lm_head", "gemm", {6, 128256, 4096}, "bf16", 1.1e-3},
                 {"RTX-4090", "vllm-0.19", "sampler", {6, 128256}, "bf16", 40e-6}});
}

TEST_CASE("llmservingsim: the v0 tables") {
  const auto layers =
      import_fixture("llmservingsim", "llmservingsim/v0_layers_A6000_Llama-3.1-8B_tp1.csv");
  check_samples(layers, "LLMServingSim 5daddb2", "MIT",
                {{"A6000", "v0 input_layernorm", "elementwise", {2 * 2 * 5 * 4096}, "bf16", 16e-6},
                 {"A6000", "v0 q_proj", "gemm", {5, 4096, 4096}, "bf16", 49e-6},
                 {"A6000", "v0 k_proj", "gemm", {5, 1024, 4096}, "bf16", 15e-6},
                 {"A6000", "v0 rope", "elementwise", {2 * 2 * 5 * (4096 + 1024)}, "bf16", 24e-6},
                 {"A6000", "v0 gate_proj", "gemm", {5, 14336, 4096}, "bf16", 164e-6},
                 {"A6000", "v0 down_proj", "gemm", {5, 4096, 14336}, "bf16", 166e-6},
                 {"A6000", "v0 lm_head", "gemm", {5, 128256, 4096}, "bf16", 1.4e-3}});
  CHECK(layers.skipped == Skipped{{"operations below the profiler's resolution", 1},
                                  {"operations of another kind", 2}});
  check_samples(import_fixture("llmservingsim",
                               "llmservingsim/v0_prefill_attention_H100_Llama-3.1-70B_tp4.csv"),
                "LLMServingSim 5daddb2", "MIT",
                {{"H100-SXM", "v0 vllm", "prefix_attention", {1, 32, 96, 16, 2, 128}, "bf16", 7e-6},
                 {"H100-SXM", "v0 vllm", "prefill_attention", {2, 32, 16, 2, 128}, "bf16", 6e-6}});
}

TEST_CASE("frontier: both styles of header, heads a rank, one kv head at least") {
  const auto whole = import_fixture("frontier", "frontier/attention_a800_Tiny_flashinfer.csv");
  const char* kernel = "FlashInfer";
  check_samples(whole, "Frontier a4b22df", "MIT",
                {{"A800-SXM", kernel, "prefill_attention", {1, 64, 16, 16, 128}, "bf16", 13e-6},
                 {"A800-SXM", kernel, "prefix_attention", {1, 64, 128, 16, 16, 128}, "bf16", 14e-6},
                 {"A800-SXM", kernel, "decode_attention", {9, 704, 16, 16, 128}, "bf16", 50e-6}});
  CHECK(whole.skipped == Skipped{{"rows below the profiler's resolution", 1}});
  check_samples(import_fixture("frontier", "frontier/attention_h800_Tiny_prefill_kernelonly.csv"),
                "Frontier a4b22df", "MIT",
                {{"H800", kernel, "prefill_attention", {1, 32, 16, 1, 128}, "bf16", 10.2e-6},
                 {"H800", kernel, "prefix_attention", {1, 32, 1024, 16, 1, 128}, "bf16", 20.4e-6}});
}

// matmul's columns are M, K, N. Rates are 1e9 elements a second; an element is read and written.
TEST_CASE("llmcompass: tables without a header") {
  const char* gpu = "A100-80-SXM";
  const auto read = [](const char* file) {
    return import_fixture("llmcompass", std::string("llmcompass/") + file + "_A100.csv");
  };
  const char* source = "LLMCompass 2e015fd";
  check_samples(read("matmul"), source, "BSD-3-Clause",
                {{gpu, "cublas", "gemm", {64, 512, 256}, "fp16", 250e-6}});
  check_samples(read("gelu"), source, "BSD-3-Clause",
                {{gpu, "gelu", "elementwise", {8000}, "fp16", 4e-6}});
  check_samples(read("softmax"), source, "BSD-3-Clause",
                {{gpu, "softmax", "elementwise", {4000}, "fp16", 4e-6}});
  check_samples(read("layernorm"), source, "BSD-3-Clause",
                {{gpu, "layernorm", "elementwise", {8000}, "fp16", 4e-6}});
  const auto layers = read("transformer");
  CHECK(layers.samples.empty());
  CHECK(layers.skipped == Skipped{{"whole layers", 1}});
}

// 2 * 1000^3 FLOP at 100 TFLOP/s: 20 us.
TEST_CASE("l20: rows that say what ran") {
  const auto imported = import_fixture("l20", "e2e_tables/l20_spot.csv");
  check_samples(
      imported, "L20 spot values", "facts",
      {{"L20", "blas TN", "gemm", {1000, 1000, 1000}, "fp16", 20e-6},
       {"L20", "lib causal bf16", "prefill_attention", {1, 4096, 32, 32, 256}, "bf16", 12e-3},
       {"L20", "lib decode bf16", "decode_attention", {1, 2048, 32, 32, 256}, "bf16", 0.25e-3}});
  CHECK(imported.skipped == Skipped{{"rows that do not say a whole shape", 4}});
}

TEST_CASE("names of machines") {
  using calibrate::machine_name;
  CHECK(machine_name("a100_sxm") == "A100-80-SXM");
  CHECK(machine_name("h100-80gb") == "H100-SXM");
  CHECK(machine_name("RTXPRO6000") == "RTX-PRO-6000");
  CHECK(machine_name("rtx_pro_6000_server") == "RTX-PRO-6000");
  CHECK(machine_name("RTX4090") == "RTX-4090");
  CHECK(machine_name("NVIDIA A10") == "A10");
  CHECK(machine_name("Some Other_GPU") == "Some-Other-GPU");
}

TEST_CASE("the options' source and licence replace the format's own") {
  check_samples(import_text("aiconfigurator", "gemm_bf16_l40s.csv", "m,n,k,latency_ms\n1,2,3,4\n",
                            {"", "mine 1", "CC0-1.0"}),
                "mine 1", "CC0-1.0", {{"L40S", "vllm-0.24.0", "gemm", {1, 2, 3}, "bf16", 4e-3}});
}
