#pragma once
// What model files say, before it becomes the per-layer table of a ModelSpec. Both readers (our
// YAML and Hugging Face's config.json) fill this, so that one place derives parameters and bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/input_error.h"
#include "sim/kv/model_spec.h"

namespace kvlane {

// Attention of one layer.
struct AttentionForm {
  AttentionKind kind = AttentionKind::full;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t window = 0;             // windowed
  std::int64_t latent_rank = 0;        // latent: kv_lora_rank
  std::int64_t rope_dim = 0;           // latent: part of head_dim that carries the position
  std::int64_t query_rank = 0;         // latent: 0 when queries are not compressed
  Bytes state{0};                      // linear
  std::int64_t linear_parameters = 0;  // linear: all projections
  bool stores_kv = true;     // false: reads the KV of an earlier layer, or has no attention
  bool output_gate = false;  // a gate as wide as the queries
};

// FFN of one layer. `width` is the dense one's; with experts it is one expert's.
struct FfnForm {
  std::int64_t width = 0;
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t shared_width = 0;  // of experts that every token uses
};

struct LayerForm {
  AttentionForm attention;
  FfnForm ffn;
};

struct ModelShape {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;    // 0: not known
  std::int64_t max_position = 0;  // 0: not known
  bool tied_embedding = false;
  bool gated_ffn = true;   // three matrices, else two
  bool qk_norm = false;    // a norm over each query and key head
  std::int64_t norms = 2;  // RMSNorms a layer over `hidden`
  bool qkv_bias = false;
  double weight_bytes = 2;
  double kv_element_bytes = 2;
  std::vector<LayerForm> layers;
  std::vector<std::string> assumptions;
  std::string source;
};

// Throws InputError at `place` for sizes that cannot be: heads that KV heads do not divide,
// nothing to attend, more than kMaxParameters, KV beyond 2^31 bytes a token.
ModelSpec build_model(const ModelShape& shape, const SourcePlace& place);

// Upper limits of single values: far beyond any model, low enough that nothing overflows.
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;  // hidden, head_dim, ranks
inline constexpr std::int64_t kMaxFfn = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxHeads = 65'536;  // and experts
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxPosition = std::int64_t{1} << 31;
inline constexpr double kMaxParameters = 1e15;

}  // namespace kvlane
