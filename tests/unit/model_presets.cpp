// The fourteen models that ship, against the published numbers, and the errors of our own format.

#include <string>

#include "model_support.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/model_show.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

ModelSpec preset(const std::string& name) {
  const std::string path = "scenarios/models/" + name + ".yaml";
  return read_model(slurp(path), path);
}

constexpr const char* kSmall =
    "name: small\nsource: test\nhidden: 256\nffn: 512\nlayers: 6\nheads: 8\nkv_heads: 2\n"
    "head_dim: 32\nvocabulary: 1000\nmax_position: 4096\n";

std::string refusal_of(const std::string& text) {
  try {
    read_model(text, "m.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("model presets: parameters and KV bytes a token as published") {
  struct Row {
    const char* file;
    std::int64_t layers;
    double parameters, body;       // 1e9, three decimals
    std::int64_t kv;               // bytes a token, all layers counted as full
    std::int64_t growing, window;  // window-aware bytes a token, and the window
    std::int64_t max_position;
  };
  const Row rows[] = {
      {"llama-3.1-8b", 32, 8.030, 6.980, 131072, 131072, 0, 131072},
      {"qwen3-8b", 36, 8.191, 6.946, 147456, 147456, 0, 40960},
      {"qwen3-14b", 40, 14.768, 13.212, 163840, 163840, 0, 40960},
      {"gemma-3-12b", 48, 11.766, 10.759, 393216, 65536, 1024, 131072},
      {"phi-4-14b", 40, 14.660, 13.632, 204800, 204800, 0, 16384},
      {"llama-3.1-70b", 80, 70.554, 68.452, 327680, 327680, 0, 131072},
      {"qwen3-32b", 64, 32.762, 31.206, 262144, 262144, 0, 40960},
      {"gemma-3-4b", 34, 3.880, 3.209, 139264, 20480, 1024, 131072},
      {"gemma-3-27b", 62, 27.009, 25.600, 507904, 81920, 1024, 131072},
      {"gemma-3-270m", 18, 0.268, 0.100, 18432, 3072, 512, 32768},
      {"phi-4-mini", 32, 3.836, 3.221, 131072, 131072, 0, 131072},
      {"smollm2-135m", 30, 0.135, 0.106, 23040, 23040, 0, 8192},
      {"mistral-7b-v0.3", 32, 7.248, 6.980, 131072, 131072, 0, 32768},
      {"qwen3-0.6b", 28, 0.596, 0.440, 114688, 114688, 0, 40960},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const ModelSpec model = preset(row.file);
    CHECK(model.layer_count() == row.layers);
    CHECK(std::abs(static_cast<double>(parameter_count(model)) / 1e9 - row.parameters) < 0.00051);
    CHECK(std::abs(static_cast<double>(body_parameter_count(model)) / 1e9 - row.body) < 0.00051);
    CHECK(kv_footprint(model, true).growing_per_token == static_cast<double>(row.kv));
    const KvFootprint exact = kv_footprint(model, false);
    CHECK(exact.growing_per_token == static_cast<double>(row.growing));
    CHECK(exact.windowed_per_token == static_cast<double>(row.kv - row.growing));
    CHECK(exact.window == row.window);
    CHECK(model.max_position == row.max_position);
    CHECK_FALSE(model.source.empty());
    CHECK(model.missing.empty());
  }
  CHECK(parameter_count(preset("smollm2-135m")) == 134'515'008);
}

TEST_CASE("model presets: windowed layers of Gemma-3 hold a constant beyond the window") {
  // 320, 116, 416 and 7.5 MiB a sequence.
  for (const auto& [file, mib] : {std::pair{"gemma-3-12b", 320.0},
                                  {"gemma-3-4b", 116.0},
                                  {"gemma-3-27b", 416.0},
                                  {"gemma-3-270m", 7.5}}) {
    const ModelSpec model = preset(file);
    const KvFootprint kv = kv_footprint(model, false);
    const double held =
        static_cast<double>(kv_bytes(model, 16'384, false).count()) - 16'384 * kv.growing_per_token;
    CHECK(held == mib * 1048576);
  }
  const ModelSpec small = preset("gemma-3-270m");
  for (const std::size_t l : {5U, 11U, 17U}) {
    CHECK(small.layers[l].attention == AttentionKind::full);
  }
}

TEST_CASE("model YAML: experts, latent attention and explicit full layers") {
  const ModelSpec experts =
      read_model(std::string(kSmall) +
                     "experts: {count: 8, per_token: 2, ffn: 100, shared_ffn: 50, "
                     "dense_layers: 1}\n",
                 "m.yaml");
  CHECK(experts.layers[0].ffn_parameters == 3 * 256 * 512);
  CHECK(experts.layers[1].ffn_parameters == 3 * 256 * (8 * 100 + 50) + 256 * 8);
  CHECK(experts.layers[1].ffn_active_parameters == 3 * 256 * (2 * 100 + 50) + 256 * 8);
  const ModelSpec latent =
      read_model(std::string(kSmall) + "latent: {rank: 128, rope_dim: 16}\nkv: fp8\n", "m.yaml");
  CHECK(kv_footprint(latent, false).growing_per_token == 6 * (128 + 16));
  const ModelSpec window =
      read_model(std::string(kSmall) + "window: {tokens: 64, full_layers: [0, 5]}\n", "m.yaml");
  CHECK(kv_footprint(window, false).growing_per_token == 2 * 2 * 64 * 2);
  CHECK(kv_footprint(window, false).windowed_per_token == 4 * 2 * 64 * 2);
}

TEST_CASE("model YAML: one clear error a mistake") {
  const std::string text = kSmall;
  CHECK(refusal_of(text) == "accepted");
  CHECK(refusal_of(text + "head_dims: 3\n").find("m.yaml:11:1: unknown key `head_dims`") == 0);
  CHECK(refusal_of(text + "window: {tokens: 64, full_layers: [6]}\n").find("layer 6 of 6") !=
        std::string::npos);
  CHECK(refusal_of(text + "window: {tokens: 64}\nlatent: {rank: 8, rope_dim: 8}\n")
            .find("expected one of them") != std::string::npos);
  CHECK(refusal_of(text + "experts: {count: 2, per_token: 3, ffn: 8}\n").find("3 of 2 experts") !=
        std::string::npos);
  std::string heads = text;
  heads.replace(heads.find("kv_heads: 2"), 11, "kv_heads: 3");
  CHECK(refusal_of(heads).find("m.yaml:7:11: 3 KV heads do not divide 8 heads") == 0);
  std::string huge = text;
  huge.replace(huge.find("hidden: 256"), 11, "hidden: 99999999999");
  CHECK(refusal_of(huge).find("out of range") != std::string::npos);
  // Each value in range, the product absurd.
  CHECK(refusal_of(text + "experts: {count: 60000, per_token: 1, ffn: 16000000}\n")
            .find("parameters") != std::string::npos);
}

TEST_CASE("show model: JSON keys and numbers, text derivation") {
  const ModelSpec model = read_model(fixture("gpt-oss-120b"), "gpt-oss-120b.json");
  const auto json = nlohmann::json::parse(show_model_json(model, 8192));
  CHECK(json["layers"] == 36);
  CHECK(json["kv_bytes_per_token_growing"] == 36'864);
  CHECK(json["kv_bytes_per_token_windowed"] == 36'864);
  CHECK(json["kv_bytes_constant"] == 0);
  CHECK(json["max_prompt_tokens"] == 131'072);
  CHECK(json["kv_bytes"] == 306'708'480);
  CHECK(json["assumptions"].is_array());
  CHECK(json["name"] == "gpt_oss");
  const std::string text = show_model_text(model, 5000);
  CHECK(text.find("18 full layers x (K 8 x 64 + V 8 x 64) x 2 B = 36864 B a token") !=
        std::string::npos);
  for (const char* length : {"1024 tokens", "5000 tokens", "8192 tokens", "32768 tokens"}) {
    CHECK(text.find(length) != std::string::npos);
  }
}

TEST_CASE("require_times: a model without FFN width has a KV size but cannot run") {
  auto config = small_config();
  config.erase("intermediate_size");
  const ModelSpec model = read(config);
  CHECK(kv_footprint(model, false).growing_per_token == 6 * 2 * 2 * 32 * 2);
  CHECK_THROWS_AS(require_times(model, {"s.yaml", 3, 4}), InputError);
  CHECK_NOTHROW(require_times(read(small_config()), {"s.yaml", 3, 4}));
}
