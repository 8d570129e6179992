// The GPU files that ship, and the first-order ratios of the paper's testbed.

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "sim/gpu/cost_model.h"
#include "sim/kv/kv_layout.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/model_file.h"

using namespace kvlane;

namespace {

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

GpuSpec gpu_preset(const std::string& name) {
  const std::string path = "scenarios/hardware/" + name + ".yaml";
  return read_gpu(slurp(path), path);
}

ModelSpec model_preset(const std::string& name) {
  const std::string path = "scenarios/models/" + name + ".yaml";
  return read_model(slurp(path), path);
}

}  // namespace

TEST_CASE("GPU presets: read, complete, every number has a source") {
  struct Row {
    const char* file;
    double tflops, gbytes_per_sec, gbytes;
  };
  // Datasheets, dense.
  for (const Row& row :
       {Row{"l20", 119.5, 864, 48}, Row{"l4", 121, 300, 24}, Row{"l40s", 362.05, 864, 48},
        Row{"a10", 125, 600, 24}, Row{"a100-40-pcie", 312, 1555, 40},
        Row{"a100-40-sxm", 312, 1555, 40}, Row{"a100-80-pcie", 312, 1935, 80},
        Row{"a100-80-sxm", 312, 2039, 80}, Row{"v100s", 130, 1134, 32}, Row{"h20", 148, 4000, 96},
        Row{"h100", 989, 3350, 80}, Row{"h100-pcie", 756.5, 2000, 80},
        Row{"h200", 989, 4800, 141}}) {
    CAPTURE(row.file);
    const GpuSpec gpu = gpu_preset(row.file);
    CHECK(gpu.peak_flops == doctest::Approx(row.tflops * 1e12));
    CHECK(gpu.memory_bandwidth == doctest::Approx(row.gbytes_per_sec * 1e9));
    CHECK(gpu.memory.count() == static_cast<std::int64_t>(row.gbytes * 1e9));
    CHECK(gpu.source.size() >= 35 + 2 * gpu.all_reduce.size());
    for (const auto& entry : gpu.source_text) CHECK_MESSAGE(!entry.second.empty(), entry.first);
    CHECK(gpu.all_reduce.contains(2));
    // What must be shown is shown.
    const std::string shown = show_gpu_text(gpu);
    for (const auto& entry : gpu.source) {
      CHECK_MESSAGE(shown.find("  " + entry.first + " ") != std::string::npos, entry.first);
    }
    for (const int tp : {1, 2, 4, 8}) {
      CHECK_NOTHROW(CostModel(gpu, model_preset("llama-3.1-8b"), tp, false));
    }
  }
}

TEST_CASE("GPU file: bare numbers and missing sources are refused with their place") {
  std::string text = slurp("scenarios/hardware/l20.yaml");
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    try {
      read_gpu(changed, "x.yaml");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(broken("864 GB/s", "864").find("x.yaml:8:") == 0);
  CHECK(
      broken("{value: 92, source: datasheet", "{value: 92, source: datasheets").find("datasheet") !=
      std::string::npos);
  CHECK(broken("ranks: 4", "ranks: 2").find("a second time") != std::string::npos);
  CHECK(broken("gemm_p:", "gemm_q:").find("gemm_p") != std::string::npos);
}

TEST_CASE("first-order ratios of the testbed: transfer of six prompts / prefill of a quarter") {
  // 6 prompts x 8192 tokens through one 25 Gbit/s port; six GPUs compute a quarter of one prompt
  // each over all 8192 keys. First order: FLOPs = 2 body new + 4 new keys H d L at 85 % of the
  // L20's 119.5 TFLOP/s, body without norms, keys = n - new/2 on average (docs/system.md
  // 2: 5.8, 6.4, 4.0, 4.8, 11.3).
  struct Row {
    const char* file;
    double ratio;
  };
  const double n = 8192;
  const double fresh = n / 4;
  for (const Row& row : {Row{"llama-3.1-8b", 5.8}, Row{"qwen3-8b", 6.4}, Row{"qwen3-14b", 4.0},
                         Row{"phi-4-14b", 4.8}, Row{"gemma-3-12b", 11.3}}) {
    CAPTURE(row.file);
    const ModelSpec model = model_preset(row.file);
    double flops = 2 * fresh * static_cast<double>(body_parameter_count(model));
    for (const LayerSpec& layer : model.layers) {
      flops +=
          4 * fresh * (n - fresh / 2) * static_cast<double>(layer.query_heads * layer.head_dim);
    }
    const double transfer = 6 * static_cast<double>(kv_bytes(model, 8192, true).count()) * 8 / 25e9;
    const double prefill = flops / (0.85 * 119.5e12);
    CHECK(transfer / prefill == doctest::Approx(row.ratio).epsilon(0.012));
    // The cost model, whose parameters come from kernels and not from these ratios, is near.
    const CostModel cost(gpu_preset("l20"), model, 1, true);
    Duration total{0};
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      Work work{.kind = WorkKind::prefill_layer, .layer = LayerId(l)};
      work.new_tokens = 2048;
      work.context_tokens = 8192;
      total += cost.duration(work);
    }
    MESSAGE(std::string(row.file) << ": first order " << transfer / prefill << ", cost model "
                                  << transfer / to_seconds(total));
    CHECK(to_seconds(total) == doctest::Approx(prefill).epsilon(0.12));
  }
}

TEST_CASE("decode step of Llama-3.1-8B: the weights at memory bandwidth") {
  // 7.5e9 parameters without the input embedding x 2 B at 864 GB/s x 0.8 = 21.7 ms.
  const ModelSpec model = model_preset("llama-3.1-8b");
  const CostModel cost(gpu_preset("l20"), model, 1, false);
  Duration total{0};
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    for (const WorkKind kind : {WorkKind::decode_qkv, WorkKind::decode_ffn}) {
      total += cost.duration(Work{.kind = kind, .layer = LayerId(l), .batch = 1});
    }
  }
  total += cost.duration(Work{.kind = WorkKind::decode_head, .batch = 1});
  CHECK(to_seconds(total) == doctest::Approx(21.7e-3).epsilon(0.08));
}
