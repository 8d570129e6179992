#include "sim/scenario/hf_config.h"

#include <algorithm>
#include <array>

#include "sim/scenario/hf_layers.h"
#include "sim/scenario/hf_object.h"
#include "sim/scenario/json_text.h"
#include "sim/scenario/model_shape.h"

namespace kvlane {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr int kMaxNesting = 8;  // of text parts

const Aliases kLayerKeys{"num_hidden_layers", "n_layer", "num_layers", "n_layers"};

Json parse(std::string_view text, const std::string& name) {
  if (text.size() > kMaxBytes) {
    throw InputError({name, 0, 0}, fmt::format("{} bytes", text.size()),
                     fmt::format("expected at most {}", kMaxBytes));
  }
  try {
    return parse_json(text);
  } catch (const JsonFault& fault) {
    if (fault.kind == JsonFault::Kind::range) {
      throw InputError({name, 0, 0}, "a number out of range", "expected numbers a double holds");
    }
    throw InputError(place_of_byte(text, name, fault.byte), "malformed JSON here",
                     "expected valid JSON");
  }
}

// The part that describes the language model: itself, or nested (rule 3).
HfObject text_part(const Json& json, const JsonPlaces& places, const std::string& name) {
  static constexpr std::array<const char*, 6> kParts{"text_config",     "llm_config",
                                                     "language_config", "thinker_config",
                                                     "language_model",  "text_model_config"};
  const Json* at = &json;
  const Json* best = &json;
  std::string path;
  std::string best_path;
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    const Json* inner = nullptr;
    for (const char* part : kParts) {
      const auto found = at->find(part);
      if (found == at->end() || !found->is_object()) continue;
      inner = &*found;
      path += (path.empty() ? "" : ".") + std::string(part);
      break;
    }
    if (inner == nullptr) break;
    at = inner;
    // A nested part counts where it has sizes; a part without any is named when nothing has.
    const bool sized = static_cast<bool>(HfObject(*at, places, name, path).find(kLayerKeys));
    if (sized || !HfObject(*best, places, name, best_path).find(kLayerKeys)) {
      best = at;
      best_path = path;
    }
  }
  return {*best, places, name, best_path};
}

struct Elements {
  std::int64_t stored = 2;  // bytes of dtype
  double kv = 2;
  double weights = 2;
};

// Rule 6: KV quantisation beats dtype beats torch_dtype.
Elements element_sizes(const HfObject& top, const HfObject& config,
                       std::vector<std::string>& assumptions) {
  Elements sizes;
  const HfObject* where = &config;
  auto type = config.find({"dtype", "torch_dtype"});
  if (!type) {
    where = &top;
    type = top.find({"dtype", "torch_dtype"});
  }
  if (!type) {
    assume(assumptions, "elements are bf16: the file has no dtype");
  } else {
    if (!type.value->is_string()) where->fail(type.key, shown(*type.value), "expected a type name");
    const auto name = type.value->get<std::string>();
    sizes.stored = name == "auto" ? 2 : bytes_of_type(name);
    if (sizes.stored == 0) {
      where->fail(type.key, shown(*type.value), "expected bfloat16, float16, float32 or float8");
    }
  }
  sizes.kv = static_cast<double>(sizes.stored);
  sizes.weights = sizes.kv;
  const HfObject& owner = config.find({"quantization_config"}) ? config : top;
  const auto quantisation = owner.find({"quantization_config"});
  if (const auto kv = owner.find({"kv_cache_dtype", "quantization_config.kv_cache_dtype",
                                  "quantization_config.kv_cache_quant_algo"})) {
    std::string name = kv.value->is_string() ? kv.value->get<std::string>() : "";
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (name != "auto") {
      sizes.kv = name == "nvfp4" ? 0.5625 : static_cast<double>(bytes_of_type(name));
      if (sizes.kv == 0) owner.fail(kv.key, shown(*kv.value), "expected fp8, int8 or a float type");
    }
  } else if (const auto bits =
                 owner.integer({"quantization_config.kv_cache_scheme.num_bits"}, 1, 32)) {
    sizes.kv = static_cast<double>(*bits) / 8;
  }
  if (!quantisation || !quantisation.value->is_object()) return sizes;
  const HfObject quant = owner.part(quantisation);
  const auto method = quant.find({"quant_method", "quant_algo"});
  const std::string name =
      method && method.value->is_string() ? method.value->get<std::string>() : "";
  if (const auto bits = quant.integer({"bits", "w_bit", "weight_bits"}, 1, 32)) {
    sizes.weights = static_cast<double>(*bits) / 8;
  } else if (name == "fp8" || name == "FP8" || name == "fbgemm_fp8") {
    sizes.weights = 1;
  } else if (name == "mxfp4") {
    sizes.weights = 0.53125;  // 4 bits and a shared exponent for 32 values
  } else {
    assume(assumptions,
           "weights are counted at the size of dtype: their quantisation is not known");
  }
  return sizes;
}

// Heads of every layer from a number or a table.
std::vector<std::int64_t> heads_by_layer(const HfObject& config, const Aliases& keys,
                                         const Aliases& tables, std::size_t layers) {
  const auto table = config.list(tables);
  if (table) {
    if (table.value->size() != layers) {
      config.fail(table.key, fmt::format("{} entries for {} layers", table.value->size(), layers),
                  "expected one entry a layer");
    }
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < layers; ++i) {
      result.push_back(config.item(table, i, 1, kMaxHeads));
    }
    return result;
  }
  const auto number = config.integer(keys, 1, kMaxHeads);
  if (!number) return {};
  return std::vector<std::int64_t>(layers, *number);
}

std::vector<std::int64_t> kv_heads_by_layer(const HfObject& config,
                                            const std::vector<std::int64_t>& heads,
                                            std::vector<std::string>& assumptions) {
  const std::size_t layers = heads.size();
  if (config.boolean("multi_query_attention").value_or(false)) {
    return std::vector<std::int64_t>(layers,
                                     config.required({"multi_query_group_num"}, 1, kMaxHeads));
  }
  if (config.boolean("multi_query").value_or(false) &&
      !config.boolean("new_decoder_architecture").value_or(false)) {
    return std::vector<std::int64_t>(layers, 1);
  }
  const Aliases keys{"num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv",
                     "attn_config.kv_n_heads"};
  const Aliases tables{"num_key_value_heads", "num_kv_heads", "num_key_value_heads_per_layer",
                       "num_kv_heads_per_layer", "kv_heads_per_layer"};
  auto result = heads_by_layer(config, keys, tables, layers);
  if (result.empty()) {
    assume(assumptions, "as many KV heads as heads: the file has no num_key_value_heads");
    return heads;
  }
  return result;
}

std::int64_t head_width(const HfObject& config, std::int64_t hidden, std::int64_t heads) {
  if (const auto width =
          config.integer({"head_dim", "kv_channels", "attention_head_dim"}, 1, kMaxWidth)) {
    return *width;
  }
  if (hidden % heads != 0) {
    config.missing("head_dim",
                   fmt::format("expected head_dim, since hidden_size {} is no multiple of "
                               "num_attention_heads {}",
                               hidden, heads));
  }
  return hidden / heads;
}

class Reader {
 public:
  Reader(const Json& json, const JsonPlaces& places, const std::string& name)
      : top_(json, places, name, ""), config_(text_part(json, places, name)) {}

  ModelSpec read() {
    shape_.name = model_name();
    if (!config_.path().empty()) {
      assume(shape_.assumptions, fmt::format("sizes are those of `{}`", config_.path()));
    }
    refuse_encoders();
    check_unused();
    const std::int64_t layers = config_.required(kLayerKeys, 1, kMaxLayers);
    shape_.hidden =
        config_.required({"hidden_size", "n_embd", "d_model", "model_dim"}, 1, kMaxWidth);
    shape_.max_position = position();
    const Elements sizes = element_sizes(top_, config_, shape_.assumptions);
    shape_.weight_bytes = sizes.weights;
    shape_.kv_element_bytes = sizes.kv;
    heads_ =
        heads_by_layer(config_, {"num_attention_heads", "n_head", "n_heads", "num_heads"},
                       {"num_attention_heads", "num_query_heads", "num_attention_heads_per_layer"},
                       static_cast<std::size_t>(layers));
    if (heads_.empty()) config_.missing("num_attention_heads", "expected the number of heads");
    plan_ = plan_layers(config_, layers, shape_.max_position, model_type(), shape_.assumptions);
    read_rest();
    build_layers(sizes.stored);
    ModelSpec model = build_model(shape_, top_.place());
    model.missing = std::move(missing_);
    return model;
  }

 private:
  std::string model_type() const {
    const auto inner = config_.text({"model_type"});
    return inner ? *inner : top_.text({"model_type"}).value_or("");
  }

  std::string model_name() const {
    const auto given = top_.find({"_name_or_path"});
    if (given && given.value->is_string() && !given.value->get<std::string>().empty()) {
      return *top_.text({"_name_or_path"});
    }
    const std::string type = top_.text({"model_type"}).value_or(model_type());
    return type.empty() ? top_.place().file : type;
  }

  void refuse_encoders() const {
    if (config_.boolean("is_encoder_decoder").value_or(false)) {
      config_.fail("is_encoder_decoder", "true", "expected a decoder-only model");
    }
  }

  // Fields that say nothing about sizes here, but whose type shows that the file is broken.
  void check_unused() const {
    if (const auto names = top_.find({"architectures"})) {
      const bool texts =
          names.value->is_array() && std::all_of(names.value->begin(), names.value->end(),
                                                 [](const Json& name) { return name.is_string(); });
      if (!texts) top_.fail(names.key, shown(*names.value), "expected a list of class names");
    }
    // Latent attention has no KV heads of its own, and the field is not read.
    if (const auto heads = config_.find({"num_key_value_heads"}); heads && !heads.value->is_array())
      config_.integer({"num_key_value_heads"}, 0, kMaxHeads);
  }

  // Rule 7. A rope factor is never applied: files with one give the extended length already, or
  // leave the extension to the user.
  std::int64_t position() {
    const auto value =
        config_.integer({"max_position_embeddings", "seq_length", "n_positions", "max_seq_len",
                         "model_max_length", "max_sequence_length", "n_ctx"},
                        1, kMaxPosition);
    if (!value) {
      missing_.emplace_back("max_position_embeddings");
      return 0;
    }
    const auto rope = config_.find({"rope_scaling", "rope_parameters"});
    if (rope && rope.value->is_object() && rope.value->contains("factor") &&
        !rope.value->contains("original_max_position_embeddings") &&
        !config_.find({"original_max_position_embeddings"})) {
      assume(shape_.assumptions,
             fmt::format("the longest prompt is {}: the rope factor is not applied to it", *value));
    }
    return *value;
  }

  void read_rest() {
    const std::string type = model_type();
    static constexpr std::array<const char*, 46> kKnown{
        "llama",         "llama4",    "llama4_text",  "mistral",   "mistral3",    "mixtral",
        "qwen2",         "qwen2_moe", "qwen3",        "qwen3_moe", "qwen3_next",  "qwen3_vl",
        "qwen3_vl_text", "qwen3_5",   "qwen3_5_text", "gemma",     "gemma2",      "gemma3",
        "gemma3_text",   "phi",       "phi3",         "gpt_oss",   "deepseek_v2", "deepseek_v3",
        "chatglm",       "falcon",    "gpt2",         "gpt_neox",  "gpt_bigcode", "starcoder2",
        "mpt",           "opt",       "bloom",        "cohere",    "cohere2",     "olmo",
        "olmo2",         "granite",   "smollm3",      "jamba",     "bamba",       "nemotron_h",
        "lfm2",          "minimax",   "glm4",         "dbrx"};
    if (std::find(kKnown.begin(), kKnown.end(), type) == kKnown.end()) {
      assume(shape_.assumptions,
             type.empty() ? "no model_type: standard attention and a gated FFN are assumed"
                          : "the architecture `" + type +
                                "` is not known: standard attention and a gated FFN are assumed");
    }
    static constexpr std::array<const char*, 9> kPlainFfn{
        "gpt2", "gpt_neox", "gpt_bigcode", "starcoder2", "mpt", "opt", "bloom", "falcon", "phi"};
    shape_.gated_ffn = std::find(kPlainFfn.begin(), kPlainFfn.end(), type) == kPlainFfn.end();
    shape_.qk_norm = type.rfind("qwen3", 0) == 0 || type.rfind("gemma3", 0) == 0;
    shape_.norms = type.rfind("gemma2", 0) == 0 || type.rfind("gemma3", 0) == 0 ? 4 : 2;
    shape_.qkv_bias = type == "qwen2" || type == "qwen2_moe" || type == "chatglm" ||
                      type == "gpt2" || config_.boolean("attention_bias").value_or(false);
    const auto vocabulary = config_.integer({"vocab_size", "padded_vocab_size"}, 1, kMaxVocabulary);
    shape_.vocabulary =
        vocabulary
            ? *vocabulary
            : top_.integer({"vocab_size", "padded_vocab_size"}, 1, kMaxVocabulary).value_or(0);
    if (shape_.vocabulary == 0) missing_.emplace_back("vocab_size");
    auto tied = config_.boolean("tie_word_embeddings");
    if (!tied) tied = top_.boolean("tie_word_embeddings");
    if (!tied) {
      assume(shape_.assumptions, "input and output embedding are one: no tie_word_embeddings");
    }
    shape_.tied_embedding = tied.value_or(true);
    if (const std::int64_t draft = draft_layers(config_); draft > 0) {
      assume(shape_.assumptions,
             fmt::format("{} draft layers are not counted; serving them adds their KV", draft));
    }
    if (config_.integer({"index_head_dim"}, 1, kMaxWidth)) {
      assume(shape_.assumptions, "keys of the sparse-attention index are not counted");
    }
    read_ffn();
  }

  void read_ffn() {
    const Aliases keys{"intermediate_size",         "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff",
                       "ffn_config.ffn_hidden_size"};
    if (const auto width = config_.integer(keys, 1, kMaxFfn)) {
      ffn_ = *width;
    } else if (config_.json().contains("n_inner")) {
      ffn_ = 4 * shape_.hidden;
      assume(shape_.assumptions, "the FFN is 4 x hidden: n_inner is null");
    }
    experts_.experts = config_
                           .integer({"num_experts", "num_local_experts", "n_routed_experts",
                                     "moe_num_experts", "ffn_config.moe_num_experts"},
                                    0, kMaxHeads)
                           .value_or(0);
    if (experts_.experts <= 1) experts_.experts = 0;
    if (experts_.experts == 0) {
      if (ffn_ == 0) missing_.emplace_back("intermediate_size");
      return;
    }
    experts_.experts_per_token = config_.required(
        {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_k",
         "num_selected_experts", "top_k_experts", "ffn_config.moe_top_k"},
        1, experts_.experts);
    const auto width = config_.integer(
        {"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"}, 1, kMaxFfn);
    experts_.width = width.value_or(ffn_);
    if (experts_.width == 0) missing_.emplace_back("moe_intermediate_size");
    const auto shared = config_.integer({"shared_expert_intermediate_size"}, 0, kMaxFfn);
    const auto count = config_.integer({"n_shared_experts", "num_shared_experts"}, 0, 1024);
    experts_.shared_width = shared ? *shared : count.value_or(0) * experts_.width;
    if (!shared && model_type().rfind("llama4", 0) == 0) experts_.shared_width = experts_.width;
  }

  bool has_experts(std::size_t l) const {
    if (experts_.experts == 0) return false;
    const auto layer = static_cast<std::int64_t>(l);
    if (layer < config_.integer({"first_k_dense_replace"}, 0, kMaxLayers).value_or(0)) return false;
    if (const auto list = config_.list({"mlp_only_layers"})) {
      for (std::size_t i = 0; i < list.value->size(); ++i) {
        if (config_.item(list, i, 0, kMaxLayers) == layer) return false;
      }
    }
    if (const auto list = config_.list({"moe_layer_freq", "moe_layers_pattern"})) {
      return l < list.value->size() && config_.item(list, l, 0, 1) == 1;
    }
    if (const auto n = config_.integer({"moe_layer_freq"}, 1, kMaxLayers)) return layer % *n == 0;
    if (const auto n =
            config_.integer({"decoder_sparse_step", "interleave_moe_layer_step"}, 1, kMaxLayers)) {
      return (layer + 1) % *n == 0;
    }
    if (const auto n = config_.integer({"expert_layer_period"}, 1, kMaxLayers)) {
      return layer % *n == config_.integer({"expert_layer_offset"}, 0, *n - 1).value_or(0);
    }
    return true;
  }

  // Heads and widths can differ by layer type (rule 4).
  void attention_of(std::size_t l, HfLayer kind, AttentionForm& form) const {
    form.head_dim = head_dim_;
    form.value_head_dim = config_.integer({"v_head_dim"}, 1, kMaxWidth).value_or(form.head_dim);
    form.heads = heads_[l];
    form.kv_heads = kv_heads_[l];
    if (kind == HfLayer::full) {
      form.kind = AttentionKind::full;
      if (const auto width = config_.integer({"global_head_dim"}, 1, kMaxWidth)) {
        form.head_dim = form.value_head_dim = *width;
      }
      form.kv_heads =
          config_.integer({"num_global_key_value_heads"}, 1, kMaxHeads).value_or(form.kv_heads);
      return;
    }
    form.kind = AttentionKind::windowed;
    form.window = plan_.windows[l];
    form.heads = config_.integer({"swa_num_attention_heads"}, 1, kMaxHeads).value_or(form.heads);
    form.kv_heads =
        config_.integer({"swa_num_key_value_heads"}, 1, kMaxHeads).value_or(form.kv_heads);
    if (const auto width = config_.integer({"swa_head_dim"}, 1, kMaxWidth)) {
      form.head_dim = form.value_head_dim = *width;
    }
    form.value_head_dim =
        config_.integer({"swa_v_head_dim"}, 1, kMaxWidth).value_or(form.value_head_dim);
  }

  void latent_of(std::int64_t rank, AttentionForm& form) {
    form.kind = AttentionKind::latent;
    form.latent_rank = rank;
    form.rope_dim = config_.required({"qk_rope_head_dim"}, 1, kMaxWidth);
    form.query_rank = config_.integer({"q_lora_rank"}, 0, kMaxWidth).value_or(0);
    const auto value = config_.integer({"v_head_dim"}, 1, kMaxWidth);
    const auto plain = config_.integer({"qk_nope_head_dim"}, 1, kMaxWidth);
    form.value_head_dim = value.value_or(rank);
    form.head_dim = form.rope_dim + plain.value_or(form.value_head_dim);
    for (const auto& [known, field] :
         {std::pair{value.has_value(), "v_head_dim"}, {plain.has_value(), "qk_nope_head_dim"}}) {
      if (!known && std::find(missing_.begin(), missing_.end(), field) == missing_.end()) {
        missing_.emplace_back(field);
      }
    }
    form.kv_heads = form.heads;  // one latent for all of them; build_model knows
  }

  void build_layers(std::int64_t element_bytes) {
    const auto rank = config_.integer({"kv_lora_rank"}, 1, kMaxWidth);
    const bool attends = std::any_of(plan_.kinds.begin(), plan_.kinds.end(), [](HfLayer kind) {
      return kind == HfLayer::full || kind == HfLayer::windowed || kind == HfLayer::chunked ||
             kind == HfLayer::lightning;
    });
    if (!rank && attends) {
      kv_heads_ = kv_heads_by_layer(config_, heads_, shape_.assumptions);
      head_dim_ = head_width(config_, shape_.hidden, heads_.front());
    }
    const auto count = plan_.kinds.size();
    const auto sharing = static_cast<std::size_t>(
        config_.integer({"num_kv_shared_layers"}, 0, static_cast<std::int64_t>(count)).value_or(0));
    if (sharing > 0) {
      assume(shape_.assumptions,
             fmt::format("the last {} layers use the KV of earlier ones and keep none", sharing));
    }
    if (rank) {
      assume(shape_.assumptions,
             "latent cache: the same bytes on every tensor-parallel rank, not divided");
    }
    for (std::size_t l = 0; l < count; ++l) {
      LayerForm layer;
      const HfLayer kind = plan_.kinds[l];
      layer.attention.heads = heads_[l];
      if (kind == HfLayer::full || kind == HfLayer::windowed || kind == HfLayer::chunked) {
        if (rank && kind == HfLayer::full) {
          latent_of(*rank, layer.attention);
        } else if (rank) {
          config_.fail("kv_lora_rank", fmt::format("{}, with windowed layers", *rank),
                       "expected latent attention in every attention layer");
        } else {
          attention_of(l, kind, layer.attention);
        }
        layer.attention.stores_kv = l < count - sharing;
        layer.attention.output_gate = config_.boolean("attn_output_gate").value_or(false);
      } else {
        layer.attention.kind = AttentionKind::linear;
        if (kind != HfLayer::ffn_only) {
          const RecurrentForm form = recurrent_form(config_, kind, shape_.hidden, heads_[l],
                                                    head_dim_, element_bytes, shape_.assumptions);
          layer.attention.state = form.state;
          layer.attention.linear_parameters = form.parameters;
          layer.attention.heads = form.heads;
          layer.attention.head_dim = form.head_dim;
          layer.attention.value_head_dim = form.head_dim;
        }
      }
      layer.ffn = has_experts(l) ? experts_ : FfnForm{ffn_, 0, 0, 0};
      shape_.layers.push_back(layer);
    }
  }

  HfObject top_;
  HfObject config_;
  ModelShape shape_;
  HfLayers plan_;
  std::vector<std::int64_t> heads_;
  std::vector<std::int64_t> kv_heads_;
  std::int64_t head_dim_ = 0;
  std::int64_t ffn_ = 0;
  FfnForm experts_;
  std::vector<std::string> missing_;
};

}  // namespace

ModelSpec read_hf_config(std::string_view text, const std::string& name) {
  const Json json = parse(text, name);
  if (!json.is_object()) {
    throw InputError({name, 1, 1}, shown(json), "expected a JSON object");
  }
  const JsonPlaces places = json_places(text, name);
  ModelSpec model = Reader(json, places, name).read();
  model.source = "config.json: " + name;
  return model;
}

}  // namespace kvlane
