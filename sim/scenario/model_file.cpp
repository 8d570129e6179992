#include "sim/scenario/model_file.h"

#include <algorithm>

#include "sim/scenario/hf_config.h"
#include "sim/scenario/model_shape.h"

namespace kvlane {
namespace {

using enum Need;

Range up_to(std::int64_t high) { return {1, static_cast<double>(high)}; }

const Mapping<WindowFile>& window_mapping() {
  static const Mapping<WindowFile> table =
      Mapping<WindowFile>("sliding window", "Layers that see the last tokens only.")
          .integer("tokens", &WindowFile::tokens, required, "Length of the window.",
                   up_to(kMaxPosition))
          .integer("full_every", &WindowFile::full_every, optional,
                   "Every so many layers, the last one of each group sees everything. Default: no "
                   "layer does.",
                   up_to(kMaxLayers))
          .list_of("full_layers", &WindowFile::full_layers, ValueType::Kind::integer, optional,
                   "The layers that see everything, counted from 0; instead of full_every.",
                   [](const YamlNode& node) {
                     return read_integer(node, {0, static_cast<double>(kMaxLayers)});
                   },
                   {1, static_cast<double>(kMaxLayers)});
  return table;
}

const Mapping<LatentFile>& latent_mapping() {
  static const Mapping<LatentFile> table =
      Mapping<LatentFile>("latent attention", "One compressed vector a token instead of K and V.")
          .integer("rank", &LatentFile::rank, required, "Width of the compressed vector.",
                   up_to(kMaxWidth))
          .integer("rope_dim", &LatentFile::rope_dim, required,
                   "Width of the part of a key that carries the position, stored beside it.",
                   up_to(kMaxWidth))
          .integer("query_rank", &LatentFile::query_rank, optional,
                   "Width of the compressed queries. Default 0: not compressed.",
                   {0, static_cast<double>(kMaxWidth)});
  return table;
}

const Mapping<ExpertsFile>& experts_mapping() {
  static const Mapping<ExpertsFile> table =
      Mapping<ExpertsFile>("experts", "A mixture of experts as FFN.")
          .integer("count", &ExpertsFile::count, required, "Routed experts a layer.",
                   up_to(kMaxHeads))
          .integer("per_token", &ExpertsFile::per_token, required, "Experts that a token uses.",
                   up_to(kMaxHeads))
          .integer("ffn", &ExpertsFile::ffn, required, "Inner width of one expert.", up_to(kMaxFfn))
          .integer("shared_ffn", &ExpertsFile::shared_ffn, optional,
                   "Inner width of the experts that every token uses. Default 0.",
                   {0, static_cast<double>(kMaxFfn)})
          .integer("dense_layers", &ExpertsFile::dense_layers, optional,
                   "Leading layers with a plain FFN. Default 0.",
                   {0, static_cast<double>(kMaxLayers)});
  return table;
}

AttentionForm form_of(const ModelFile& file, std::int64_t layer) {
  AttentionForm form;
  form.heads = file.heads;
  form.kv_heads = file.kv_heads;
  form.head_dim = file.head_dim;
  form.value_head_dim = file.value_head_dim.value_or(file.head_dim);
  if (file.latent) {
    form.kind = AttentionKind::latent;
    form.latent_rank = file.latent->rank;
    form.rope_dim = file.latent->rope_dim;
    form.query_rank = file.latent->query_rank;
  }
  if (file.window) {
    const auto& full = file.window->full_layers;
    const bool sees_all = std::find(full.begin(), full.end(), layer) != full.end() ||
                          (file.window->full_every && (layer + 1) % *file.window->full_every == 0);
    if (!sees_all) {
      form.kind = AttentionKind::windowed;
      form.window = file.window->tokens;
    }
  }
  return form;
}

// What one key alone cannot say.
void check(const ModelFile& file, const YamlNode& root) {
  if (file.heads % file.kv_heads != 0) {
    throw InputError(node_at(root, {"kv_heads"}).place,
                     fmt::format("{} KV heads do not divide {} heads", file.kv_heads, file.heads),
                     "expected a divisor");
  }
  if (file.window) {
    if (file.latent) {
      throw InputError(node_at(root, {"window"}).place, "a window and latent attention",
                       "expected one of them");
    }
    if (file.window->full_every && !file.window->full_layers.empty()) {
      throw InputError(node_at(root, {"window", "full_layers"}).place, "full_every and full_layers",
                       "expected one of them");
    }
    for (std::size_t i = 0; i < file.window->full_layers.size(); ++i) {
      if (file.window->full_layers[i] >= file.layers) {
        throw InputError(node_at(root, {"window", "full_layers", i}).place,
                         fmt::format("layer {} of {}", file.window->full_layers[i], file.layers),
                         "expected a layer of the model, counted from 0");
      }
    }
  }
  if (file.latent && file.latent->rope_dim > file.head_dim) {
    throw InputError(node_at(root, {"latent", "rope_dim"}).place,
                     fmt::format("{} of a head {} wide", file.latent->rope_dim, file.head_dim),
                     "expected at most the head");
  }
  if (file.experts && file.experts->per_token > file.experts->count) {
    throw InputError(node_at(root, {"experts", "per_token"}).place,
                     fmt::format("{} of {} experts", file.experts->per_token, file.experts->count),
                     "expected at most all of them");
  }
  if (file.experts && file.experts->dense_layers > file.layers) {
    throw InputError(node_at(root, {"experts", "dense_layers"}).place,
                     fmt::format("{} of {} layers", file.experts->dense_layers, file.layers),
                     "expected at most all of them");
  }
}

}  // namespace

const Mapping<ModelFile>& model_mapping() {
  static const Mapping<ModelFile> table =
      Mapping<ModelFile>("model", "The shape of a language model.")
          .text("name", &ModelFile::name, required, "Name of the model.")
          .text("source", &ModelFile::source, required, "Where the values come from.")
          .integer("hidden", &ModelFile::hidden, required, "Width of the residual stream.",
                   up_to(kMaxWidth))
          .integer("ffn", &ModelFile::ffn, required, "Inner width of the FFN.", up_to(kMaxFfn))
          .integer("layers", &ModelFile::layers, required, "Number of layers.", up_to(kMaxLayers))
          .integer("heads", &ModelFile::heads, required, "Query heads.", up_to(kMaxHeads))
          .integer("kv_heads", &ModelFile::kv_heads, required, "KV heads; they divide the heads.",
                   up_to(kMaxHeads))
          .integer("head_dim", &ModelFile::head_dim, required,
                   "Width of a query and key; not always hidden / heads.", up_to(kMaxWidth))
          .integer("value_head_dim", &ModelFile::value_head_dim, optional,
                   "Width of a value. Default: head_dim.", up_to(kMaxWidth))
          .integer("vocabulary", &ModelFile::vocabulary, required, "Words.", up_to(kMaxVocabulary))
          .integer("max_position", &ModelFile::max_position, required,
                   "Longest prompt and output together, in tokens.", up_to(kMaxPosition))
          .boolean("tied_embedding", &ModelFile::tied_embedding, optional,
                   "Input and output embedding are one matrix.")
          .default_value("false")
          .boolean("gated_ffn", &ModelFile::gated_ffn, optional,
                   "The FFN has up, gate and down; else up and down.")
          .default_value("true")
          .boolean("qk_norm", &ModelFile::qk_norm, optional, "Queries and keys are normalised.")
          .default_value("false")
          .integer("norms_per_layer", &ModelFile::norms_per_layer, optional,
                   "Norms of the residual width in a layer.", {0, 16})
          .default_value("2")
          .words("weights", &ModelFile::weight_bytes,
                 {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"int8", 1}, {"int4", 0.5}}, optional,
                 "Type of the weights in memory.")
          .default_value("bf16")
          .words("kv", &ModelFile::kv_element_bytes, {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}},
                 optional, "Type of K and V as the model stores them.")
          .default_value("bf16")
          .mapping("window", &ModelFile::window, window_mapping(), optional,
                   "Sliding-window layers. Default: none.")
          .mapping("latent", &ModelFile::latent, latent_mapping(), optional,
                   "Multi-head latent attention. Default: none.")
          .mapping("experts", &ModelFile::experts, experts_mapping(), optional,
                   "Mixture of experts. Default: a plain FFN.");
  return table;
}

ModelSpec model_from_yaml(const YamlNode& root) {
  ModelFile file;
  model_mapping().read(root, file);
  check(file, root);
  ModelShape shape;
  shape.name = file.name;
  shape.source = file.source;
  shape.hidden = file.hidden;
  shape.vocabulary = file.vocabulary;
  shape.max_position = file.max_position;
  shape.tied_embedding = file.tied_embedding;
  shape.gated_ffn = file.gated_ffn;
  shape.qk_norm = file.qk_norm;
  shape.norms = file.norms_per_layer;
  shape.weight_bytes = file.weight_bytes;
  shape.kv_element_bytes = file.kv_element_bytes;
  for (std::int64_t l = 0; l < file.layers; ++l) {
    LayerForm layer{form_of(file, l), {file.ffn, 0, 0, 0}};
    if (file.experts && l >= file.experts->dense_layers) {
      layer.ffn = {file.experts->ffn, file.experts->count, file.experts->per_token,
                   file.experts->shared_ffn};
    }
    shape.layers.push_back(layer);
  }
  return build_model(shape, root.place);
}

ModelSpec read_model(std::string_view text, const std::string& name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json_name = name.size() >= 5 && name.compare(name.size() - 5, 5, ".json") == 0;
  if (json_name || (first != std::string_view::npos && text[first] == '{')) {
    return read_hf_config(text, name);
  }
  return model_from_yaml(parse_yaml(text, name));
}

void require_times(const ModelSpec& model, const SourcePlace& place) {
  if (model.missing.empty()) return;
  throw InputError(place,
                   fmt::format("the model {} has no {}", model.name, join_words(model.missing)),
                   "expected it in the model file: compute times depend on it");
}

}  // namespace kvlane
