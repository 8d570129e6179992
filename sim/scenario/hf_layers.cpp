#include "sim/scenario/hf_layers.h"

#include <algorithm>
#include <array>

#include "sim/scenario/model_shape.h"

namespace kvlane {
namespace {

struct Word {
  const char* word;
  HfLayer kind;
};
constexpr std::array<Word, 17> kLayerWords{{{"full_attention", HfLayer::full},
                                            {"attention", HfLayer::full},
                                            {"global", HfLayer::full},
                                            {"global_attention", HfLayer::full},
                                            {"hybrid", HfLayer::full},
                                            {"sliding_attention", HfLayer::windowed},
                                            {"sliding_window_attention", HfLayer::windowed},
                                            {"local", HfLayer::windowed},
                                            {"local_attention", HfLayer::windowed},
                                            {"chunked_attention", HfLayer::chunked},
                                            {"linear_attention", HfLayer::delta},
                                            {"lightning_attention", HfLayer::lightning},
                                            {"conv", HfLayer::conv},
                                            {"mamba", HfLayer::mamba},
                                            {"mamba2", HfLayer::mamba},
                                            {"mlp", HfLayer::ffn_only},
                                            {"moe", HfLayer::ffn_only}}};

// One entry a layer. Entries beyond that belong to draft layers, if as many are declared.
void check_length(const HfObject& config, const std::string& key, std::size_t length,
                  std::int64_t layers, std::vector<std::string>& assumptions) {
  const auto count = static_cast<std::int64_t>(length);
  if (count == layers) return;
  const std::int64_t draft = draft_layers(config);
  if (draft > 0 && count == layers + draft) {
    assume(assumptions, fmt::format("the last {} entries of {} belong to draft layers", draft,
                                    config.name_of(key)));
    return;
  }
  config.fail(key, fmt::format("{} entries for {} layers", count, layers),
              "expected one entry a layer");
}

bool from_words(const HfObject& config, std::int64_t layers, HfLayers& result,
                std::vector<std::string>& assumptions) {
  const auto list = config.list({"layer_types", "layers_block_type"});
  if (!list) return false;
  check_length(config, list.key, list.value->size(), layers, assumptions);
  for (std::size_t i = 0; i < result.kinds.size(); ++i) {
    const Json& entry = (*list.value)[i];
    const std::string key = fmt::format("{}[{}]", list.key, i);
    if (!entry.is_string()) config.fail(key, shown(entry), "expected the name of a layer type");
    const auto text = entry.get<std::string>();
    const auto word = std::find_if(kLayerWords.begin(), kLayerWords.end(),
                                   [&](const Word& w) { return text == w.word; });
    if (word == kLayerWords.end()) {
      config.fail(key, shown(entry),
                  "expected full_attention, sliding_attention, chunked_attention, "
                  "linear_attention, conv or mamba");
    }
    result.kinds[i] = word->kind;
  }
  return true;
}

// "LLLG" repeats; "M-M*-" (hybrid_override_pattern) has one letter a layer.
bool from_letters(const HfObject& config, std::int64_t layers, HfLayers& result,
                  std::vector<std::string>& assumptions) {
  const auto found =
      config.find({"hybrid_override_pattern", "sliding_window_pattern", "_sliding_window_pattern"});
  if (!found || !found.value->is_string()) return false;
  const auto letters = found.value->get<std::string>();
  const bool repeats = found.key != "hybrid_override_pattern";
  if (letters.empty()) config.fail(found.key, "empty", "expected letters");
  if (!repeats) check_length(config, found.key, letters.size(), layers, assumptions);
  for (std::size_t i = 0; i < result.kinds.size(); ++i) {
    switch (letters[i % letters.size()]) {
      case 'L':
        result.kinds[i] = HfLayer::windowed;
        break;
      case 'G':
      case '*':
        result.kinds[i] = HfLayer::full;
        break;
      case 'M':
        result.kinds[i] = HfLayer::mamba;
        break;
      case '-':
      case 'E':
        result.kinds[i] = HfLayer::ffn_only;
        break;
      default:
        config.fail(found.key, shown(*found.value), "expected letters of L, G, M, E, * and -");
    }
  }
  return true;
}

// Lists of numbers, one a layer.
bool from_numbers(const HfObject& config, std::int64_t layers, HfLayers& result,
                  std::vector<std::string>& assumptions) {
  struct Pattern {
    const char* key;
    std::array<HfLayer, 2> kinds;  // of 0 and 1
  };
  static constexpr std::array<Pattern, 5> kPatterns{
      {{"hybrid_layer_pattern", {HfLayer::full, HfLayer::windowed}},
       {"sliding_window_pattern", {HfLayer::full, HfLayer::windowed}},
       {"_sliding_window_pattern", {HfLayer::full, HfLayer::windowed}},
       {"attn_type_list", {HfLayer::lightning, HfLayer::full}},
       {"no_rope_layers", {HfLayer::full, HfLayer::chunked}}}};
  for (const Pattern& pattern : kPatterns) {
    const auto list = config.list({pattern.key});
    if (!list || list.value->empty()) continue;
    if (pattern.kinds[1] == HfLayer::chunked && !config.find({"attention_chunk_size"})) continue;
    check_length(config, list.key, list.value->size(), layers, assumptions);
    for (std::size_t i = 0; i < result.kinds.size(); ++i) {
      result.kinds[i] = pattern.kinds[static_cast<std::size_t>(config.item(list, i, 0, 1))];
    }
    assume(assumptions, fmt::format("{}: 1 marks {} layers", config.name_of(list.key),
                                    pattern.kinds[1] == HfLayer::full ? "full" : "windowed"));
    return true;
  }
  return false;
}

// Every n-th layer attends to everything, the others are `other`.
void every(HfLayers& result, std::int64_t n, std::int64_t offset, HfLayer other) {
  for (std::size_t i = 0; i < result.kinds.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    result.kinds[i] = layer % n == offset ? HfLayer::full : other;
  }
}

bool from_intervals(const HfObject& config, HfLayers& result) {
  if (const auto n = config.integer({"full_attention_interval"}, 1, kMaxLayers);
      n && config.find({"linear_num_value_heads"})) {
    every(result, *n, *n - 1, HfLayer::delta);
    return true;
  }
  if (const auto n = config.integer({"attn_layer_period"}, 1, kMaxLayers)) {
    every(result, *n, config.integer({"attn_layer_offset"}, 0, *n - 1).value_or(0), HfLayer::mamba);
    return true;
  }
  if (const auto list = config.list({"attn_layer_indices"})) {
    std::fill(result.kinds.begin(), result.kinds.end(), HfLayer::mamba);
    const auto last = static_cast<std::int64_t>(result.kinds.size()) - 1;
    for (std::size_t i = 0; i < list.value->size(); ++i) {
      result.kinds[static_cast<std::size_t>(config.item(list, i, 0, last))] = HfLayer::full;
    }
    return true;
  }
  if (config.find({"attention_chunk_size"})) {
    const auto n = config.integer({"no_rope_layer_interval"}, 1, kMaxLayers).value_or(4);
    every(result, n, n - 1, HfLayer::chunked);
    return true;
  }
  return false;
}

// A window without a per-layer table.
void from_window(const HfObject& config, const std::string& model_type, HfLayers& result,
                 std::vector<std::string>& assumptions) {
  if (const auto n = config.integer({"sliding_window_pattern", "_sliding_window_pattern",
                                     "global_attn_every_n_layers", "layer_switch"},
                                    1, kMaxLayers)) {
    return every(result, *n, *n - 1, HfLayer::windowed);
  }
  if (config.boolean("use_sliding_window").value_or(false)) {
    if (const auto first = config.integer({"max_window_layers"}, 0, kMaxLayers)) {
      for (std::size_t i = 0; i < result.kinds.size(); ++i) {
        if (static_cast<std::int64_t>(i) >= *first) result.kinds[i] = HfLayer::windowed;
      }
      return;
    }
  }
  if (model_type == "gemma2" || model_type == "gpt_oss") {
    every(result, 2, 1, HfLayer::windowed);
    return assume(assumptions, "every second layer is windowed, as in " + model_type);
  }
  if (model_type == "gemma3_text" || model_type == "gemma3") {
    every(result, 6, 5, HfLayer::windowed);
    return assume(assumptions, "five of six layers are windowed, as in gemma3");
  }
  if (model_type == "cohere2") {
    every(result, 4, 3, HfLayer::windowed);
    return assume(assumptions, "three of four layers are windowed, as in cohere2");
  }
  std::fill(result.kinds.begin(), result.kinds.end(), HfLayer::windowed);
  assume(assumptions, "the sliding window applies to every layer: the file has no pattern");
}

std::int64_t window_tokens(const HfObject& config, std::vector<std::string>& assumptions) {
  const Aliases keys{"sliding_window", "sliding_window_size", "attention_window_size"};
  if (config.list(keys)) return 0;  // a table by layer
  const auto window = config.integer(keys, -1, kMaxPosition);
  if (!window) return 0;
  if (config.boolean("use_sliding_window") == false) return 0;
  if (*window < 1) {
    assume(assumptions, fmt::format("a sliding window of {} means none", *window));
    return 0;
  }
  return *window;
}

}  // namespace

void assume(std::vector<std::string>& assumptions, std::string sentence) {
  if (std::find(assumptions.begin(), assumptions.end(), sentence) == assumptions.end()) {
    assumptions.push_back(std::move(sentence));
  }
}

std::int64_t draft_layers(const HfObject& config) {
  return config
      .integer({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 0,
               kMaxLayers)
      .value_or(0);
}

std::int64_t bytes_of_type(std::string name) {
  if (name.rfind("torch.", 0) == 0) name = name.substr(6);
  static constexpr std::array<std::pair<const char*, std::int64_t>, 13> kTypes{
      {{"bfloat16", 2},
       {"bf16", 2},
       {"float16", 2},
       {"fp16", 2},
       {"half", 2},
       {"float32", 4},
       {"fp32", 4},
       {"float", 4},
       {"float8_e4m3fn", 1},
       {"float8_e5m2", 1},
       {"fp8", 1},
       {"fp8_e4m3", 1},
       {"int8", 1}}};
  for (const auto& [word, bytes] : kTypes) {
    if (name == word) return bytes;
  }
  return 0;
}

HfLayers plan_layers(const HfObject& config, std::int64_t layers, std::int64_t max_position,
                     const std::string& model_type, std::vector<std::string>& assumptions) {
  HfLayers result;
  result.kinds.assign(static_cast<std::size_t>(layers), HfLayer::full);
  result.windows.assign(result.kinds.size(), 0);
  std::int64_t window = window_tokens(config, assumptions);
  const Aliases window_keys{"sliding_window", "sliding_window_size", "attention_window_size"};
  const auto table = config.list(window_keys);
  const bool by_layer = from_words(config, layers, result, assumptions) ||
                        from_letters(config, layers, result, assumptions) ||
                        from_numbers(config, layers, result, assumptions) ||
                        from_intervals(config, result);
  if (max_position > 0 && window >= max_position) {
    assume(assumptions, fmt::format("the window of {} tokens never binds: prompts end at {}",
                                    window, max_position));
    std::replace(result.kinds.begin(), result.kinds.end(), HfLayer::windowed, HfLayer::full);
    window = 0;
  } else if (!by_layer && window > 0) {
    from_window(config, model_type, result, assumptions);
  }
  if (table) {
    check_length(config, table.key, table.value->size(), layers, assumptions);
  }
  const bool switched_off = config.boolean("use_sliding_window") == false;
  for (std::size_t i = 0; i < result.kinds.size(); ++i) {
    HfLayer& kind = result.kinds[i];
    if (table && (kind == HfLayer::full || kind == HfLayer::windowed)) {
      const Json& entry = (*table.value)[i];
      const std::int64_t tokens = entry.is_null() ? 0 : config.item(table, i, -1, kMaxPosition);
      kind = tokens > 0 ? HfLayer::windowed : HfLayer::full;
      result.windows[i] = std::max<std::int64_t>(tokens, 0);
    } else if (kind == HfLayer::windowed) {
      if (switched_off) {
        kind = HfLayer::full;
      } else if (window == 0) {
        config.missing("sliding_window", "expected the window of the sliding layers, in tokens");
      }
      result.windows[i] = kind == HfLayer::windowed ? window : 0;
    } else if (kind == HfLayer::chunked) {
      result.windows[i] = config.required({"attention_chunk_size"}, 1, kMaxPosition);
      assume(assumptions, "chunked attention is counted as a window of one chunk");
    }
  }
  return result;
}

RecurrentForm recurrent_form(const HfObject& config, HfLayer kind, std::int64_t hidden,
                             std::int64_t heads, std::int64_t head_dim, std::int64_t element_bytes,
                             std::vector<std::string>& assumptions) {
  RecurrentForm form;
  std::int64_t scan_bytes = 4;
  if (const auto type = config.text({"mamba_ssm_dtype"})) {
    scan_bytes = bytes_of_type(*type);
    if (scan_bytes == 0) config.fail("mamba_ssm_dtype", "`" + *type + "`", "expected a float type");
  } else if (kind == HfLayer::delta || kind == HfLayer::mamba) {
    assume(assumptions, "recurrent states are float32: the file has no mamba_ssm_dtype");
  }
  if (kind == HfLayer::delta) {
    const std::int64_t key_heads = config.required({"linear_num_key_heads"}, 1, kMaxHeads);
    const std::int64_t value_heads = config.required({"linear_num_value_heads"}, 1, kMaxHeads);
    const std::int64_t key_dim = config.required({"linear_key_head_dim"}, 1, kMaxWidth);
    const std::int64_t value_dim = config.required({"linear_value_head_dim"}, 1, kMaxWidth);
    const std::int64_t kernel = config.required({"linear_conv_kernel_dim"}, 1, 4096);
    const std::int64_t channels = 2 * key_heads * key_dim + value_heads * value_dim;
    form.state = Bytes(channels * (kernel - 1) * element_bytes +
                       value_heads * key_dim * value_dim * scan_bytes);
    // Q, K, V, the output gate and two gates a head; the output projection.
    form.parameters =
        hidden * (channels + 2 * value_heads * value_dim + 2 * value_heads) + channels * kernel;
    form.heads = value_heads;
    form.head_dim = value_dim;
  } else if (kind == HfLayer::lightning) {
    form.state = Bytes(heads * head_dim * head_dim * 4);
    form.parameters = 5 * hidden * heads * head_dim;
    form.heads = heads;
    form.head_dim = head_dim;
    assume(assumptions, "lightning attention keeps a float32 state of head_dim x head_dim a head");
  } else if (kind == HfLayer::conv) {
    const std::int64_t length = config.required({"conv_L_cache"}, 1, 4096);
    form.state = Bytes(hidden * length * element_bytes);
    form.parameters = 4 * hidden * hidden;
    form.heads = 1;
    form.head_dim = hidden;
  } else if (kind == HfLayer::mamba) {
    const std::int64_t kernel = config.required({"mamba_d_conv", "conv_kernel", "d_conv"}, 1, 4096);
    const std::int64_t state =
        config.required({"mamba_d_state", "ssm_state_size", "d_state"}, 1, kMaxWidth);
    const auto scan_heads = config.integer({"mamba_n_heads", "mamba_num_heads"}, 1, kMaxHeads);
    std::int64_t inner = 0;
    std::int64_t channels = 0;
    if (scan_heads) {  // second generation: groups share the input and output vectors
      form.heads = *scan_heads;
      form.head_dim = config.required({"mamba_d_head", "mamba_head_dim"}, 1, kMaxWidth);
      const auto groups = config.integer({"mamba_n_groups", "n_groups"}, 1, kMaxHeads);
      inner = form.heads * form.head_dim;
      channels = inner + 2 * groups.value_or(1) * state;
    } else {
      inner = hidden * config.required({"mamba_expand", "expand"}, 1, 64);
      channels = inner;
      form.heads = 1;
      form.head_dim = inner;
    }
    form.state = Bytes(channels * (kernel - 1) * element_bytes + inner * state * scan_bytes);
    form.parameters = hidden * (inner + channels) + inner * hidden + channels * kernel;
  }
  return form;
}

}  // namespace kvlane
