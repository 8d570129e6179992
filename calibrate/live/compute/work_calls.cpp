#include "calibrate/live/compute/work_calls.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "calibrate/measure/kernel_calls.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

using calibrate::Call;
using calibrate::NoRoom;

// Whether every layer reads much that it uses once.
bool reads_once(WorkKind kind) {
  return kind == WorkKind::decode_qkv || kind == WorkKind::decode_ffn ||
         kind == WorkKind::decode_attention || kind == WorkKind::select;
}

}  // namespace

WorkCalls::WorkCalls(const CostModel& model, calibrate::Backend& backend, std::string gemm_dtype)
    : model_(model),
      backend_(backend),
      gemm_dtype_(std::move(gemm_dtype)),
      like_(like_layers(model.model())) {
  const std::vector<LayerSpec>& layers = model.model().layers;
  double weights = 0;
  for (const LayerSpec& layer : layers) {
    weights = std::max(
        weights, static_cast<double>(layer.attention_parameters + layer.ffn_active_parameters));
  }
  const double bytes = weights / model.tp() * (gemm_dtype_ == "fp32" ? 4 : 2);
  const auto room = static_cast<double>(backend.operands().values().size());
  copies_ = static_cast<std::size_t>(std::clamp(room / std::max(bytes, 1.0), 1.0,
                                                std::max(1.0, static_cast<double>(layers.size()))));
}

WorkCalls::Key WorkCalls::key_of(const Work& work, const std::vector<KernelStep>& steps) const {
  const bool layered = work.layer.is_valid() && work.layer.index() < like_.size() &&
                       work.kind != WorkKind::prefill_head && work.kind != WorkKind::decode_head;
  Key key{work.kind, 0, {}, {}};
  if (layered && reads_once(work.kind)) key.copy = work.layer.index() % copies_;
  if (work.kind == WorkKind::select) {
    key.selection = {layered ? static_cast<std::int64_t>(like_[work.layer.index()]) : 0, work.batch,
                     work.context_tokens, work.selector_bytes, work.hashed ? 1 : 0};
  }
  for (const KernelStep& step : steps) {
    key.kernels.emplace_back(step.shape.kernel, step.shape.shape, step.shape.dtype, step.times);
  }
  return key;
}

// The values are read only: where they end, the next call reads them from the start.
template <class Make>
auto WorkCalls::with_values(Make make) {
  try {
    return make();
  } catch (const NoRoom&) {
    backend_.operands().reuse_values();
    return make();
  }
}

WorkCall WorkCalls::make(const Work& work, const std::vector<KernelStep>& steps) {
  WorkCall made;
  if (work.kind == WorkKind::select) {
    if (work.batch == 0) return made;
    SelectionChain chain =
        with_values([&] { return selection_chain(work, model_, backend_, gemm_dtype_); });
    made.calls = std::move(chain.calls);
    made.selection = chain.output;
    return made;
  }
  for (const KernelStep& step : steps) {
    for (std::int64_t i = 0; i < step.times; ++i) {
      Call call = with_values([&] { return calibrate::kernel_call(step.shape, backend_); });
      if (!call) {
        throw std::runtime_error(fmt::format("{}: this device has no {} of {}",
                                             to_string(work.kind), step.shape.kernel,
                                             shape_text(step.shape)));
      }
      made.calls.push_back(std::move(call));
    }
  }
  return made;
}

std::shared_ptr<const WorkCall> WorkCalls::of(const Work& work) {
  const std::vector<KernelStep> steps = kernels_of(work, model_, gemm_dtype_);
  Key key = key_of(work, steps);
  const auto known = kept_.find(key);
  if (known != kept_.end()) return known->second;
  auto made = std::make_shared<const WorkCall>(make(work, steps));
  kept_.emplace(std::move(key), made);
  return made;
}

void WorkCalls::forget() {
  kept_.clear();
  backend_.operands().reset();
}

}  // namespace kvlane::live
