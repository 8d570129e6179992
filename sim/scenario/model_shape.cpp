#include "sim/scenario/model_shape.h"

#include <algorithm>

namespace kvlane {
namespace {

// Parameters are summed in double beside the exact integers, to refuse what would overflow.
struct Count {
  std::int64_t exact = 0;
  double rough = 0;
  void add(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
    const double product = static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
    rough += product;
    if (rough <= kMaxParameters) exact += a * b * c;
  }
};

Count attention_parameters(const AttentionForm& a, std::int64_t hidden) {
  Count n;
  if (a.kind == AttentionKind::linear) {
    n.add(a.linear_parameters, 1);
    return n;
  }
  if (a.kind == AttentionKind::latent) {
    if (a.query_rank > 0) {
      n.add(hidden, a.query_rank);
      n.add(a.query_rank, a.heads, a.head_dim);
    } else {
      n.add(hidden, a.heads, a.head_dim);
    }
    n.add(hidden, a.latent_rank + a.rope_dim);
    n.add(a.latent_rank, a.heads, a.head_dim - a.rope_dim + a.value_head_dim);
  } else {
    n.add(hidden, a.heads, a.head_dim);
    if (a.stores_kv) n.add(hidden, a.kv_heads, a.head_dim + a.value_head_dim);
    if (a.output_gate) n.add(hidden, a.heads, a.value_head_dim);
  }
  n.add(a.heads, a.value_head_dim, hidden);
  return n;
}

std::int64_t other_parameters(const ModelShape& shape, const AttentionForm& a) {
  std::int64_t n = shape.norms * shape.hidden;
  if (a.kind == AttentionKind::linear) return n;
  if (shape.qk_norm) n += 2 * a.head_dim;
  if (a.kind == AttentionKind::latent) return n + a.query_rank + a.latent_rank;
  if (shape.qkv_bias) n += a.heads * a.head_dim + a.kv_heads * (a.head_dim + a.value_head_dim);
  return n;
}

void check_attention(const AttentionForm& a, std::size_t layer, const SourcePlace& place) {
  const auto fail = [&](const std::string& found, const char* expected) {
    throw InputError(place, fmt::format("layer {}: {}", layer, found), expected);
  };
  if (a.kind == AttentionKind::linear) return;
  if (a.heads < 1 || a.kv_heads < 1 || a.head_dim < 1 || a.value_head_dim < 1) {
    fail(fmt::format("{} heads, {} KV heads, head width {}", a.heads, a.kv_heads, a.head_dim),
         "expected positive sizes");
  }
  if (a.heads % a.kv_heads != 0) {
    fail(fmt::format("{} KV heads do not divide {} heads", a.kv_heads, a.heads),
         "expected a divisor");
  }
  if (a.kind == AttentionKind::windowed && a.window < 1) {
    fail(fmt::format("a window of {} tokens", a.window), "expected at least 1");
  }
}

}  // namespace

ModelSpec build_model(const ModelShape& shape, const SourcePlace& place) {
  ModelSpec model;
  model.name = shape.name;
  model.hidden = shape.hidden;
  model.vocabulary = shape.vocabulary;
  model.max_position = shape.max_position;
  model.tied_embedding = shape.tied_embedding;
  model.weight_bytes = shape.weight_bytes;
  model.kv_element_bytes = shape.kv_element_bytes;
  model.assumptions = shape.assumptions;
  model.source = shape.source;
  double parameters = 2 * static_cast<double>(shape.vocabulary) * static_cast<double>(shape.hidden);
  double kv_per_token = 0;
  double state = 0;
  for (std::size_t l = 0; l < shape.layers.size(); ++l) {
    const AttentionForm& a = shape.layers[l].attention;
    const FfnForm& f = shape.layers[l].ffn;
    check_attention(a, l, place);
    LayerSpec layer;
    layer.attention = a.kind;
    layer.query_heads = a.heads;
    layer.head_dim = a.head_dim;
    layer.value_head_dim = a.value_head_dim;
    if (a.kind == AttentionKind::linear) {
      layer.state = a.state;
    } else if (a.kind == AttentionKind::latent) {
      layer.kv_heads = 1;
      layer.k_width = a.latent_rank + a.rope_dim;
    } else {
      layer.kv_heads = a.kv_heads;
      layer.k_width = a.stores_kv ? a.head_dim : 0;
      layer.v_width = a.stores_kv ? a.value_head_dim : 0;
      if (a.kind == AttentionKind::windowed) layer.window = a.window;
    }
    const Count attention = attention_parameters(a, shape.hidden);
    const std::int64_t matrices = shape.gated_ffn ? 3 : 2;
    Count ffn;
    Count active;
    if (f.experts > 0) {
      layer.ffn_experts = f.experts;
      layer.ffn_experts_per_token = f.experts_per_token;
      for (Count* count : {&ffn, &active}) {
        count->add(shape.hidden, f.experts);  // router
        count->add(matrices, shape.hidden, f.shared_width);
      }
      ffn.add(matrices * f.experts, shape.hidden, f.width);
      active.add(matrices * f.experts_per_token, shape.hidden, f.width);
    } else {
      ffn.add(matrices, shape.hidden, f.width);
      active = ffn;
    }
    parameters += attention.rough + ffn.rough;
    layer.attention_parameters = attention.exact;
    layer.other_parameters = other_parameters(shape, a);
    layer.ffn_parameters = ffn.exact;
    layer.ffn_active_parameters = active.exact;
    model.ffn = std::max(model.ffn, f.width);
    kv_per_token += kv_bytes_per_token(model, layer);
    state += static_cast<double>(layer.state.count());
    model.layers.push_back(layer);
  }
  if (parameters > kMaxParameters) {
    throw InputError(place, fmt::format("{:.3g} parameters", parameters),
                     fmt::format("expected at most {:g}", kMaxParameters));
  }
  if (kv_per_token >= 0x1p31 || state >= 0x1p50) {
    throw InputError(
        place,
        fmt::format("{:.3g} bytes of KV a token, {:.3g} bytes of state", kv_per_token, state),
        "expected less than 2^31 a token and 2^50 of state");
  }
  return model;
}

}  // namespace kvlane
