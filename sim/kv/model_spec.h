#pragma once
// The shape of a model, as far as time and bytes depend on it. A per-layer table, since K and V
// widths, head counts, windows and kinds differ by layer in real models.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.h"

namespace kvlane {

enum class AttentionKind : std::uint8_t {
  full,      // KV grows with every token
  windowed,  // KV of the last `window` tokens only
  latent,    // MLA: one compressed vector a token, the same on every tensor-parallel rank
  linear,    // recurrent state of constant size, no KV
};

struct LayerSpec {
  AttentionKind attention = AttentionKind::full;
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;               // 1 for latent
  std::int64_t head_dim = 0;               // of queries and keys
  std::int64_t value_head_dim = 0;         // of values, as the attention kernel sees them
  std::int64_t k_width = 0;                // elements a kv head stores for K (latent: rank + rope)
  std::int64_t v_width = 0;                // for V (latent: 0, V is made from the same vector)
  std::int64_t window = 0;                 // tokens, windowed only
  Bytes state{0};                          // linear only: bytes a request
  std::int64_t attention_parameters = 0;   // Q, K, V, O projections
  std::int64_t other_parameters = 0;       // norms and biases
  std::int64_t ffn_parameters = 0;         // all experts and the router
  std::int64_t ffn_active_parameters = 0;  // those that one token uses
  std::int64_t ffn_experts = 0;            // routed experts, 0: dense
  std::int64_t ffn_experts_per_token = 0;
  bool operator==(const LayerSpec&) const = default;
};

struct ModelSpec {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_position = 0;  // prompt + output
  bool tied_embedding = false;
  double weight_bytes = 2;      // bytes a parameter
  double kv_element_bytes = 2;  // bytes an element of K or V
  std::vector<LayerSpec> layers;
  std::vector<std::string> assumptions;  // what the file did not say, in sentences
  // Fields that the file lacks and only times need: KV sizes hold, a run is refused.
  std::vector<std::string> missing;
  std::string source;  // where the values come from

  std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
};

// How the bytes of a request's KV divide (docs/contracts.md: kv_bytes = N * growing + min(N,
// window) * windowed + constant). `windowed` is bytes a token while inside the window.
struct KvFootprint {
  double growing_per_token = 0;
  double windowed_per_token = 0;
  Bytes constant{0};
  std::int64_t window = 0;  // the largest window, 0: none
};

// Bytes of K and V that one token adds to one layer over all kv heads (0 for linear), before TP.
double kv_bytes_per_token(const ModelSpec& model, const LayerSpec& layer);

// `windows_as_full`: sliding windows are treated as full attention (scenario key sliding_window:
// as_full).
KvFootprint kv_footprint(const ModelSpec& model, bool windows_as_full);

// Bytes of a request of `tokens` tokens, per layer windows respected.
Bytes kv_bytes(const ModelSpec& model, std::int64_t tokens, bool windows_as_full);

// Parameters of the whole model (text part), and of its layers alone, norms included.
std::int64_t parameter_count(const ModelSpec& model);
std::int64_t body_parameter_count(const ModelSpec& model);

}  // namespace kvlane
