#pragma once
// A model from our own YAML (scenarios/models/*.yaml), and the choice between it and a Hugging Face
// config.json (hf_config.h). Keys of the YAML: `kvlane schema`; the table is model_mapping().

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kv/model_spec.h"
#include "sim/scenario/schema.h"

namespace kvlane {

struct WindowFile {
  std::int64_t tokens = 0;
  std::optional<std::int64_t> full_every;  // layers full_every - 1, 2 full_every - 1, ... are full
  std::vector<std::int64_t> full_layers;   // or these are
};

struct LatentFile {
  std::int64_t rank = 0;
  std::int64_t rope_dim = 0;
  std::int64_t query_rank = 0;
};

struct ExpertsFile {
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  std::int64_t ffn = 0;
  std::int64_t shared_ffn = 0;
  std::int64_t dense_layers = 0;  // leading layers with a plain FFN
};

struct ModelFile {
  std::string name;
  std::string source;
  std::int64_t hidden = 0, ffn = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<std::int64_t> value_head_dim;
  std::int64_t vocabulary = 0, max_position = 0;
  bool tied_embedding = false;
  bool gated_ffn = true;
  bool qk_norm = false;
  std::int64_t norms_per_layer = 2;
  double weight_bytes = 2, kv_element_bytes = 2;
  std::optional<WindowFile> window;
  std::optional<LatentFile> latent;
  std::optional<ExpertsFile> experts;
};

const Mapping<ModelFile>& model_mapping();

ModelSpec model_from_yaml(const YamlNode& root);

// `text` is JSON (first character `{`, or a name that ends in .json) or our YAML. Throws
// InputError; the result may lack what only times need (ModelSpec::missing).
ModelSpec read_model(std::string_view text, const std::string& name);

// Refuses a model whose file gives its KV but not what compute times need (FFN width, vocabulary,
// longest prompt); a scenario calls it, `kvlane show model` does not.
void require_times(const ModelSpec& model, const SourcePlace& place);

}  // namespace kvlane
