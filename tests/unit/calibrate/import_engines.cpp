// Whole engines: batches, first tokens and token gaps, from throughput where that is what was
// printed.

#include "tests/unit/calibrate/import_support.h"

using namespace kvlane;
using namespace kvlane::test;

TEST_CASE("aiconfigurator: serving points under closed-loop load") {
  const auto imported = import_fixture("aiconfigurator", "aiconfigurator/silicon_e2e.csv");
  check_samples(
      imported, "aiconfigurator 095f58a", "Apache-2.0",
      {{"H100-SXM", "vllm 0.9", "serving_step", {8, 1000, 100, 2}, "bf16", 12.5e-3, "org/Model-8B"},
       {"H200-SXM",
        "trtllm 1.9",
        "serving_step",
        {16, 2000, 200, 1},
        "fp8",
        6.25e-3,
        "org/Model-8B"}});
  CHECK(imported.skipped == Skipped{{"disaggregated serving points", 1},
                                    {"pipeline-parallel serving points", 1},
                                    {"serving points without a token time", 1}});
}

TEST_CASE("splitwise: two ranks over 64 sequences are broken upstream") {
  const char* model = "model-70b";
  const char* broken = "broken_upstream";
  const char* run = "splitwise";
  check_samples(
      import_fixture("splitwise", "splitwise/perf_model.csv"), "splitwise-sim 8f99e7d", "MIT",
      {{"A100-80-SXM", run, "serving_prefill", {4, 512, 2}, "fp16", 0.2, model},
       {"A100-80-SXM", run, "serving_step", {4, 512, 128, 2}, "fp16", 0.05, model},
       {"H100-SXM", run, "serving_prefill", {64, 512, 2}, "fp16", 0.3, model, broken},
       {"H100-SXM", run, "serving_step", {64, 512, 128, 2}, "fp16", 0.06, model, broken},
       {"H100-SXM-capped", run, "serving_prefill", {64, 512, 4}, "fp16", 0.35, model},
       {"H100-SXM-capped", run, "serving_step", {64, 512, 128, 4}, "fp16", 0.065, model}});
}

// 10 sequences of 200 output tokens: 2000 tokens at 4000/s; at 500/s of each of four GPUs.
TEST_CASE("tensorrt-llm: throughput as the time of the batch") {
  check_samples(
      import_fixture("tensorrt-llm", "e2e_tables/trtllm_static.csv"), "TensorRT-LLM 138f96d",
      "Apache-2.0",
      {{"H100-SXM", "trtllm-0.6", "serving_batch", {10, 128, 200, 1}, "fp8", 0.5, "Model 7B"},
       {"A100-80-SXM", "trtllm-0.6", "serving_batch", {10, 128, 200, 4}, "fp16", 1, "Model 70B"},
       {"L40S", "trtllm-0.5", "serving_prefill", {1, 2048, 1}, "fp8", 73e-3, "Model 7B"}});
}

TEST_CASE("llm-inference-bench: both tables") {
  check_samples(
      import_fixture("llm-inference-bench", "argonne/llm_inference_bench_tiny.csv"),
      "LLM-Inference-Bench 4211f5d", "BSD-3-Clause",
      {{"GH200", "vLLM", "serving_batch", {16, 128, 128, 1}, "fp16", 0.8, "org/Model-7B"}});
  const auto first = import_fixture("llm-inference-bench", "argonne/ttft_tiny.csv");
  check_samples(
      first, "LLM-Inference-Bench 4211f5d", "BSD-3-Clause",
      {{"H100-SXM", "vLLM", "serving_prefill", {16, 1024, 2}, "fp16", 0.4, "org/Model-7B"},
       {"A100-80-SXM",
        "TensorRT-LLM",
        "serving_prefill",
        {16, 1024, 1},
        "fp16",
        0.6,
        "org/Model-7B"}});
  CHECK(first.skipped == Skipped{{"machines of other makers", 1}});
}
