// The rules of reading config.json, one at a time, on a small model of 6 layers, 8 heads of 32, 2
// KV heads: 6 x 2 x (32 + 32) x 2 B = 1536 B a token, 256 a layer.

#include "model_support.h"
#include "sim/kv/model_spec.h"
#include "sim/scenario/hf_config.h"

using namespace kvlane;
using namespace kvlane::test;
using nlohmann::json;

namespace {

double growing(const json& config) { return kv_footprint(read(config), false).growing_per_token; }
double windowed(const json& config) { return kv_footprint(read(config), false).windowed_per_token; }

json with(std::initializer_list<std::pair<const char*, json>> fields) {
  json config = small_config();
  for (const auto& [key, value] : fields) config[key] = value;
  return config;
}

bool names(const std::string& message, const std::string& field) {
  return message.find("`" + field + "`") != std::string::npos;
}

}  // namespace

TEST_CASE("rule 1: null is absent, use_sliding_window false beats a window") {
  CHECK(growing(small_config()) == 1536);
  CHECK(growing(with({{"head_dim", nullptr}})) == 1536);
  CHECK(growing(with({{"num_key_value_heads", nullptr}})) == 4 * 1536);
  CHECK(assumes(read(with({{"num_key_value_heads", nullptr}})), "num_key_value_heads"));
  CHECK(growing(with({{"num_key_value_heads", nullptr}, {"num_kv_heads", {1, 1, 2, 2, 4, 4}}})) ==
        (2 + 4 + 8) * 128);
  CHECK(windowed(with({{"sliding_window", nullptr}})) == 0);
  CHECK(windowed(with({{"sliding_window", 64}, {"use_sliding_window", false}})) == 0);
  CHECK(windowed(with({{"sliding_window", 64}})) == 1536);
}

TEST_CASE("rule 2: head_dim when given; no integer division that does not come out") {
  CHECK(growing(with({{"head_dim", 64}})) == 2 * 1536);
  const std::string message = refusal(with({{"num_attention_heads", 6}}));
  CHECK(names(message, "head_dim"));
  CHECK(message.find("hidden_size 256") != std::string::npos);
  CHECK(message.find("num_attention_heads 6") != std::string::npos);
}

TEST_CASE("rule 3: the text part is found at any depth") {
  const json nested{{"model_type", "omni"},
                    {"torch_dtype", "float32"},
                    {"thinker_config",
                     {{"text_config", small_config()}, {"vision_config", {{"hidden_size", 9}}}}},
                    {"talker_config", {{"text_config", {{"hidden_size", 8}}}}}};
  const ModelSpec model = read(nested);
  CHECK(model.hidden == 256);
  CHECK(model.kv_element_bytes == 2);  // its own torch_dtype, not the outer one
  CHECK(assumes(model, "`thinker_config.text_config`"));
  // A text part without sizes leaves the outer ones in force.
  CHECK(growing(with({{"text_config", {{"model_type", "x"}}}})) == 1536);
  const json vision_only{{"vision_config", small_config()}};
  CHECK(names(refusal(vision_only), "num_hidden_layers"));
  json incomplete = small_config();
  incomplete.erase("num_attention_heads");
  CHECK(names(refusal({{"text_config", incomplete}}), "text_config.num_attention_heads"));
}

TEST_CASE("errors stand at the key that is wrong; a key stands once") {
  const auto error = [](const std::string& text) {
    try {
      read_hf_config(text, "config.json");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto starts = [&](const std::string& text, const std::string& with) {
    return error(text).rfind(with, 0) == 0;
  };
  CHECK(starts("{\"num_hidden_layers\": 6,\n  \"hidden_size\": -1}",
               "config.json:2:3: `hidden_size` is -1; expected "));
  CHECK(starts("{\"a\": 1,\n \"b\": {\"a\": [1, {\"a\": 2}], \"c\": 3,\n \"c\": 4}}",
               "config.json:3:2: the key `c` a second time; expected "));
  CHECK(starts("{\"text_config\": {\"num_hidden_layers\": 6,\n \"hidden_size\": \"x\"}}",
               "config.json:2:2: `text_config.hidden_size` is "));
  CHECK(
      starts("{\"num_hidden_layers\": 2, \"hidden_size\": 256, \"num_attention_heads\": 8,\n"
             "\"layer_types\": [\"full_attention\",\n  7]}",
             "config.json:3:3: `layer_types[1]` is 7; expected "));
  // Fields that say nothing about sizes must not be nonsense either.
  CHECK(names(refusal(with({{"architectures", 7}})), "architectures"));
  CHECK(names(refusal(with({{"architectures", {1, 2}}})), "architectures"));
  const json latent{{"kv_lora_rank", 512},
                    {"qk_rope_head_dim", 64},
                    {"v_head_dim", 128},
                    {"qk_nope_head_dim", 128}};
  json mla = small_config();
  mla.update(latent);
  CHECK_NOTHROW(read(mla));
  for (const json& heads : {json(-3), json("many"), json(1.5)}) {
    json broken = mla;
    broken["num_key_value_heads"] = heads;
    CHECK(names(refusal(broken), "num_key_value_heads"));
  }
  CHECK(names(refusal(with({{"_name_or_path", "a\nb"}})), "_name_or_path"));
}

TEST_CASE("rule 4: heads and widths differ by layer type, V by its own width") {
  CHECK(growing(with({{"v_head_dim", 16}})) == 6 * 2 * (32 + 16) * 2);
  const json config = with({{"sliding_window", 64},
                            {"hybrid_layer_pattern", {0, 1, 1, 0, 1, 1}},
                            {"swa_num_key_value_heads", 4},
                            {"swa_head_dim", 16}});
  CHECK(growing(config) == 2 * 256);
  CHECK(windowed(config) == 4 * (4 * 32 * 2));
  CHECK(growing(with({{"sliding_window", 64},
                      {"sliding_window_pattern", 3},
                      {"global_head_dim", 64},
                      {"num_global_key_value_heads", 1}})) == 2 * 1 * 128 * 2);
}

TEST_CASE("rule 5: patterns") {
  const json window{{"sliding_window", 64}};
  // Every third layer is full.
  CHECK(growing(with({{"sliding_window", 64}, {"sliding_window_pattern", 3}})) == 2 * 256);
  CHECK(growing(with({{"sliding_window", 64}, {"sliding_window_pattern", "LLG"}})) == 2 * 256);
  CHECK(growing(with({{"sliding_window", 64}, {"sliding_window_pattern", {1, 1, 1, 1, 1, 0}}})) ==
        256);
  // From layer 4 on.
  CHECK(growing(with(
            {{"sliding_window", 64}, {"use_sliding_window", true}, {"max_window_layers", 4}})) ==
        4 * 256);
  // A table of windows.
  const ModelSpec table = read(with({{"sliding_window", {nullptr, 64, 0, 32, -1, 64}}}));
  CHECK(kv_footprint(table, false).growing_per_token == 3 * 256);
  CHECK(kv_footprint(table, false).window == 64);
  CHECK(kv_bytes(table, 1000, false) == Bytes(256 * (3 * 1000 + 64 + 32 + 64)));
  const json types{"full_attention",    "sliding_attention", "sliding_attention",
                   "sliding_attention", "sliding_attention", "full_attention"};
  CHECK(growing(with({{"sliding_window", 64}, {"layer_types", types}})) == 2 * 256);
  CHECK(names(refusal(with({{"layer_types", types}})), "sliding_window"));
  json longer = types;
  longer.push_back("full_attention");
  const std::string message = refusal(with({{"sliding_window", 64}, {"layer_types", longer}}));
  CHECK(message.find("7 entries for 6 layers") != std::string::npos);
  const json drafting =
      with({{"sliding_window", 64}, {"layer_types", longer}, {"num_nextn_predict_layers", 1}});
  CHECK(growing(drafting) == 2 * 256);
  CHECK(assumes(read(drafting), "draft"));
  json odd = types;
  odd[3] = "quantum_attention";
  CHECK(names(refusal(with({{"sliding_window", 64}, {"layer_types", odd}})), "layer_types[3]"));
  // A window as long as the longest prompt is none.
  CHECK(windowed(with({{"sliding_window", 4096}})) == 0);
  // Chunks count as windows.
  CHECK(windowed(with({{"attention_chunk_size", 128}, {"no_rope_layers", {1, 1, 1, 0, 1, 1}}})) ==
        5 * 256);
}

TEST_CASE("rule 5: recurrent layers by interval, letters and periods") {
  const json delta = with({{"full_attention_interval", 3},
                           {"linear_num_key_heads", 2},
                           {"linear_num_value_heads", 4},
                           {"linear_key_head_dim", 8},
                           {"linear_value_head_dim", 16},
                           {"linear_conv_kernel_dim", 4}});
  CHECK(growing(delta) == 2 * 256);
  // 4 layers x ((2 x 2 x 8 + 4 x 16) x 3 columns x 2 B + 4 x 8 x 16 x 4 B)
  CHECK(kv_footprint(read(delta), false).constant == Bytes(4 * (96 * 6 + 2048)));
  json incomplete = delta;
  incomplete.erase("linear_key_head_dim");
  CHECK(names(refusal(incomplete), "linear_key_head_dim"));
  const json mamba = with({{"hybrid_override_pattern", "M-M*ME"},
                           {"mamba_num_heads", 4},
                           {"mamba_head_dim", 16},
                           {"ssm_state_size", 8},
                           {"n_groups", 2},
                           {"conv_kernel", 4}});
  CHECK(growing(mamba) == 256);
  // 3 x ((4 x 16 + 2 x 2 x 8) x 3 x 2 B + 4 x 16 x 8 x 4 B)
  CHECK(kv_footprint(read(mamba), false).constant == Bytes(3 * (96 * 6 + 2048)));
  const json jamba = with({{"attn_layer_period", 3},
                           {"attn_layer_offset", 1},
                           {"mamba_d_conv", 4},
                           {"mamba_d_state", 16},
                           {"mamba_expand", 2}});
  CHECK(growing(jamba) == 2 * 256);
  CHECK(kv_footprint(read(jamba), false).constant == Bytes(4 * (512 * 3 * 2 + 512 * 16 * 4)));
  CHECK(refusal(with({{"hybrid_override_pattern", "M?M*ME"}})).find("letters") !=
        std::string::npos);
}

TEST_CASE("rule 6: KV quantisation beats dtype beats torch_dtype") {
  CHECK(growing(with({{"dtype", "float32"}})) == 2 * 1536);  // beside torch_dtype bfloat16
  CHECK(growing(with({{"quantization_config",
                       {{"quant_method", "modelopt"}, {"kv_cache_quant_algo", "FP8"}}}})) == 768);
  CHECK(growing(with({{"quantization_config",
                       {{"quant_method", "compressed-tensors"},
                        {"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}}}})) == 768);
  CHECK(growing(with({{"quantization_config", {{"quant_method", "fp8"}}}})) == 1536);
  CHECK(
      read(with({{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}}})).weight_bytes ==
      0.5);
  CHECK(growing(with({{"torch_dtype", "torch.float16"}})) == 1536);
  CHECK(growing(with({{"torch_dtype", nullptr}})) == 1536);
  CHECK(assumes(read(with({{"torch_dtype", nullptr}})), "bf16"));
  CHECK(names(refusal(with({{"torch_dtype", "complex128"}})), "torch_dtype"));
}

TEST_CASE("rule 7: longest prompt, aliases, no rope factor") {
  CHECK(
      read(with({{"rope_scaling",
                  {{"type", "yarn"}, {"factor", 32}, {"original_max_position_embeddings", 128}}}}))
          .max_position == 4096);
  const ModelSpec linear = read(with({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}}}));
  CHECK(linear.max_position == 4096);
  CHECK(assumes(linear, "rope factor"));
  CHECK(read(with({{"rope_scaling", nullptr}})).assumptions.empty());
  CHECK(read(with({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}))
            .max_position == 4096);
  for (const char* alias : {"seq_length", "n_positions", "max_seq_len", "model_max_length"}) {
    json config = small_config();
    config.erase("max_position_embeddings");
    config[alias] = 777;
    CHECK(read(config).max_position == 777);
  }
  json without = small_config();
  without.erase("max_position_embeddings");
  CHECK(read(without).missing == std::vector<std::string>{"max_position_embeddings"});
}

TEST_CASE("rule 8: older names") {
  const json old{{"model_type", "gpt2"}, {"n_layer", 6},       {"n_head", 8},      {"n_embd", 256},
                 {"n_positions", 1024},  {"n_inner", nullptr}, {"vocab_size", 100}};
  CHECK(growing(old) == 4 * 1536);
  CHECK(read(old).layers[0].ffn_parameters == 2 * 256 * 1024);  // 4 x hidden, not gated
  const json mpt{{"d_model", 256},      {"n_layers", 6},
                 {"n_heads", 8},        {"attn_config", {{"kv_n_heads", 2}}},
                 {"max_seq_len", 99},   {"vocab_size", 10},
                 {"ffn_hidden_size", 8}};
  CHECK(growing(mpt) == 1536);
  CHECK(growing(with({{"multi_query", true}})) == 768);
  CHECK(growing(with({{"multi_query_attention", true}, {"multi_query_group_num", 4}})) == 2 * 1536);
  CHECK(names(refusal(with({{"multi_query_attention", true}})), "multi_query_group_num"));
}

TEST_CASE("rule 9: unknown architectures are computed and said; missing fields are refused") {
  CHECK(assumes(read(with({{"model_type", "brandnew"}})), "`brandnew`"));
  for (const char* field : {"hidden_size", "num_hidden_layers", "num_attention_heads"}) {
    json config = small_config();
    config.erase(field);
    const std::string message = refusal(config);
    CHECK(names(message, field));
    CHECK(message.find("missing") != std::string::npos);
    config[field] = nullptr;
    CHECK(refusal(config).find("null") != std::string::npos);
  }
}

TEST_CASE("wrong types, absurd sizes and contradictions name the field") {
  CHECK(names(refusal(with({{"num_hidden_layers", "36"}})), "num_hidden_layers"));
  CHECK(names(refusal(with({{"num_hidden_layers", 0}})), "num_hidden_layers"));
  CHECK(names(refusal(with({{"num_hidden_layers", -3}})), "num_hidden_layers"));
  CHECK(names(refusal(with({{"hidden_size", 1.5}})), "hidden_size"));
  CHECK(names(refusal(with({{"hidden_size", 1e300}})), "hidden_size"));
  CHECK(names(refusal(with({{"hidden_size", 18446744073709551615ULL}})), "hidden_size"));
  CHECK(names(refusal(with({{"tie_word_embeddings", "no"}})), "tie_word_embeddings"));
  CHECK(names(refusal(with({{"kv_lora_rank", 64}})), "qk_rope_head_dim"));
  CHECK(names(refusal(with({{"is_encoder_decoder", true}})), "is_encoder_decoder"));
  CHECK(names(refusal(with({{"num_local_experts", 8}})), "num_experts_per_tok"));
  CHECK(names(refusal(with({{"num_local_experts", 8}, {"num_experts_per_tok", 9}})),
              "num_experts_per_tok"));
  CHECK(refusal(with({{"num_key_value_heads", 3}})).find("3 KV heads do not divide 8") !=
        std::string::npos);
  CHECK(growing(with({{"hidden_size", 256.0}})) == 1536);
}

TEST_CASE("malformed JSON: line and column") {
  const auto error = [](const std::string& text) {
    try {
      read_hf_config(text, "c.json");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(error("{\n  \"a\": 1,\n  \"b\": ,\n}").find("c.json:3:8:") == 0);
  CHECK(error("").find("c.json:1:1:") == 0);
  CHECK(error("[1]").find("expected a JSON object") != std::string::npos);
  // A zero byte is not the end, whatever stands behind it.
  CHECK(error(std::string("{\"a\": 1}\0]}", 12)).find("c.json:1:9: malformed JSON") == 0);
  CHECK(error("{\"a\": NaN}").find("c.json:1:7") == 0);
  CHECK(error("{\"hidden_size\": 1e999}").find("c.json") == 0);
  CHECK(error(std::string(100'000, '[')).find("c.json") == 0);
  CHECK(error("{\"_name_or_path\": \"\xff\"}").find("c.json") == 0);
}

TEST_CASE("experts: dense layers, intervals and shared experts") {
  json config = with({{"num_experts", 8},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 64},
                      {"shared_expert_intermediate_size", 32},
                      {"decoder_sparse_step", 2},
                      {"mlp_only_layers", {3}}});
  const ModelSpec model = read(config);
  const std::int64_t dense = 3 * 256 * 512;
  for (const std::size_t l : {0U, 2U, 3U, 4U}) CHECK(model.layers[l].ffn_parameters == dense);
  for (const std::size_t l : {1U, 5U}) {
    CHECK(model.layers[l].ffn_parameters == 3 * 256 * (8 * 64 + 32) + 256 * 8);
    CHECK(model.layers[l].ffn_active_parameters == 3 * 256 * (2 * 64 + 32) + 256 * 8);
  }
}
