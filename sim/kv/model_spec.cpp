#include "sim/kv/model_spec.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"

namespace kvlane {

double kv_bytes_per_token(const ModelSpec& model, const LayerSpec& layer) {
  if (layer.attention == AttentionKind::linear) return 0;
  return static_cast<double>(layer.kv_heads * (layer.k_width + layer.v_width)) *
         model.kv_element_bytes;
}

KvFootprint kv_footprint(const ModelSpec& model, bool windows_as_full) {
  KvFootprint result;
  for (const LayerSpec& layer : model.layers) {
    const double bytes = kv_bytes_per_token(model, layer);
    if (layer.attention == AttentionKind::windowed && !windows_as_full) {
      result.windowed_per_token += bytes;
      result.window = std::max(result.window, layer.window);
    } else {
      result.growing_per_token += bytes;
    }
    result.constant += layer.state;
  }
  return result;
}

Bytes kv_bytes(const ModelSpec& model, std::int64_t tokens, bool windows_as_full) {
  KVLANE_CHECK(tokens >= 0, "{} tokens", tokens);
  Bytes total{0};
  for (const LayerSpec& layer : model.layers) {
    const bool windowed = layer.attention == AttentionKind::windowed && !windows_as_full;
    const std::int64_t held = windowed ? std::min(tokens, layer.window) : tokens;
    const double bytes = static_cast<double>(held) * kv_bytes_per_token(model, layer);
    total += layer.state + Bytes(static_cast<std::int64_t>(std::ceil(bytes)));
  }
  return total;
}

std::int64_t parameter_count(const ModelSpec& model) {
  const std::int64_t embeddings = model.vocabulary * model.hidden * (model.tied_embedding ? 1 : 2) +
                                  model.hidden;  // final norm
  return embeddings + body_parameter_count(model);
}

std::int64_t body_parameter_count(const ModelSpec& model) {
  std::int64_t total = 0;
  for (const LayerSpec& layer : model.layers) {
    total += layer.attention_parameters + layer.other_parameters + layer.ffn_parameters;
  }
  return total;
}

}  // namespace kvlane
