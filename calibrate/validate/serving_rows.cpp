#include "calibrate/validate/serving_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "calibrate/validate/row_collector.h"
#include "calibrate/validate/serving_time.h"
#include "sim/gpu/cost_model.h"
#include "sim/gpu/find_gpu.h"

namespace kvlane::calibrate {
namespace {

constexpr const char* kTensorRt[] = {"trtllm", "tensorrt", "TensorRT"};

bool is_tensorrt(const Sample& sample) {
  const std::string engine = sample.variant + ' ' + sample.source;
  return std::any_of(std::begin(kTensorRt), std::end(kTensorRt),
                     [&](const char* word) { return engine.find(word) != std::string::npos; });
}

const char* word_of(const Sample& sample) {
  if (sample.kernel == "serving_batch") return "e2e_static";
  if (sample.kernel == "serving_step") return "e2e_tpot";
  return sample.kernel == "serving_prefill" ? "e2e_prefill" : nullptr;
}

std::string engine_of(const Sample& sample) {
  if (is_tensorrt(sample)) return "trtllm";
  return sample.variant.substr(0, sample.variant.find_first_of(" -"));
}

// Cost models by machine, model, ranks and width of weights and KV: made once, asked often.
class CostModels {
 public:
  CostModels(const std::vector<GpuSpec>& gpus, const ModelLookup& lookup)
      : gpus_(gpus), lookup_(lookup) {}

  const CostModel* find(const Sample& sample, int ranks) {
    const bool fp8 = sample.dtype == "fp8";
    const auto key = std::make_tuple(sample.machine, sample.model, ranks, fp8, is_tensorrt(sample));
    const auto known = models_.find(key);
    if (known != models_.end()) return known->second ? &*known->second : nullptr;
    auto& made = models_[key];
    const GpuSpec* gpu = find_gpu(gpus_, sample.machine);
    const ModelSpec* model = lookup_(sample.model);
    if (gpu == nullptr || model == nullptr) return nullptr;
    if (ranks > 1 && !gpu->all_reduce.contains(ranks)) return nullptr;
    if (fp8 && gpu->peak_fp8_flops <= 0) return nullptr;
    ModelSpec spec = *model;
    if (fp8) spec.weight_bytes = 1;
    if (fp8 && is_tensorrt(sample)) spec.kv_element_bytes = 1;
    made.emplace(*gpu, std::move(spec), ranks, false);
    return &*made;
  }

 private:
  const std::vector<GpuSpec>& gpus_;
  const ModelLookup& lookup_;
  std::map<std::tuple<std::string, std::string, int, bool, bool>, std::optional<CostModel>> models_;
};

double predicted(const CostModel& cost, const Sample& sample) {
  const ServingTime time(cost);
  const std::int64_t sequences = dimension(sample, "sequences");
  const std::int64_t prompt = dimension(sample, "prompt_tokens");
  if (sample.kernel == "serving_prefill") return time.prefill(sequences, prompt);
  const std::int64_t output = dimension(sample, "output_tokens");
  return sample.kernel == "serving_batch" ? time.batch(sequences, prompt, output)
                                          : time.token_gap(sequences, prompt, output);
}

}  // namespace

std::vector<ValidationRow> serving_rows(const std::vector<Sample>& samples,
                                        const std::vector<GpuSpec>& gpus, const ModelLookup& model,
                                        const PointSink& points) {
  CostModels costs(gpus, model);
  RowCollector rows(false);
  for (const Sample& sample : samples) {
    const char* what = word_of(sample);
    if (what == nullptr || !sample.set_aside.empty()) continue;
    const auto ranks = static_cast<int>(dimension(sample, "ranks"));
    const CostModel* cost = costs.find(sample, ranks);
    if (cost == nullptr) continue;
    const double seconds = predicted(*cost, sample);
    const std::string engine = engine_of(sample);
    if (points) points(what, engine, sample, seconds);
    rows.add(
        what, sample.machine, engine,
        fmt::format("{}{} x {}", cost->model().name, sample.dtype == "fp8" ? " fp8" : "", ranks),
        seconds, sample.seconds);
    // The marks: LLaMA-7B on one GPU over all machines; all token gaps of an engine on a machine.
    if (sample.kernel == "serving_batch" && sample.source.starts_with("TensorRT-LLM") &&
        ranks == 1 && cost->model().name == "Llama-2-7B") {
      rows.add(what, "all", engine, kMarkDomain, seconds, sample.seconds);
    }
    if (sample.kernel == "serving_step") {
      rows.add(what, sample.machine, engine, kMarkDomain, seconds, sample.seconds);
    }
  }
  return rows.take("all");  // of an engine without a mark
}

}  // namespace kvlane::calibrate
