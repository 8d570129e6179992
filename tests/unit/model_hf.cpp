// Six real configurations that break naive readers, with their KV sizes derived by hand. The
// fixtures hold the fields that matter, not the published files.

#include "model_support.h"
#include "sim/kv/model_spec.h"

using namespace kvlane;
using namespace kvlane::test;

namespace {

ModelSpec model(const std::string& name) { return read_hf_config(fixture(name), name + ".json"); }

}  // namespace

TEST_CASE("gpt-oss-120b: explicit head width, half of the layers windowed, no dtype") {
  const ModelSpec m = model("gpt-oss-120b");
  const KvFootprint kv = kv_footprint(m, false);
  CHECK(kv.growing_per_token == 18 * 2 * 8 * 64 * 2);
  CHECK(kv.windowed_per_token == 18 * 2 * 8 * 64 * 2);
  CHECK(kv.growing_per_token + kv.windowed_per_token == 73'728);
  CHECK(kv.window == 128);
  CHECK(kv_bytes(m, 8192, false) == Bytes(306'708'480));  // 8192 x 36864 + 128 x 36864
  CHECK(m.max_position == 131'072);                       // not x 32
  CHECK(assumes(m, "no dtype"));
  CHECK(m.layers[1].ffn_experts == 128);
  CHECK(m.weight_bytes == 0.53125);
  // 116.8e9 parameters, 5.1e9 active, as published.
  CHECK(static_cast<double>(parameter_count(m)) == doctest::Approx(116.8e9).epsilon(0.005));
}

TEST_CASE("Qwen3-0.6B: head width wider than hidden / heads, null window") {
  const ModelSpec m = model("qwen3-0.6b");
  CHECK(kv_footprint(m, false).growing_per_token == 114'688);  // 28 x 2 x 8 x 128 x 2
  CHECK(kv_footprint(m, false).windowed_per_token == 0);
  CHECK(m.assumptions.empty());
  CHECK(static_cast<double>(parameter_count(m)) == doctest::Approx(0.596e9).epsilon(0.001));
}

TEST_CASE("DeepSeek-V3: latent cache, whatever num_key_value_heads says") {
  const ModelSpec m = model("deepseek-v3");
  CHECK(kv_footprint(m, false).growing_per_token == 70'272);  // 61 x (512 + 64) x 2
  CHECK(m.layer_count() == 61);
  CHECK(assumes(m, "1 draft layers"));
  CHECK(assumes(m, "not divided"));
  CHECK(m.kv_element_bytes == 2);  // fp8 weights do not make the KV fp8
  CHECK(m.weight_bytes == 1);
  CHECK(m.max_position == 163'840);
  CHECK(m.layers[2].ffn_experts == 0);
  CHECK(m.layers[3].ffn_experts == 256);
  // 671e9 parameters, 37e9 active, as published.
  CHECK(static_cast<double>(parameter_count(m)) == doctest::Approx(671e9).epsilon(0.002));
}

TEST_CASE("Qwen3-VL-8B: the text part, never the vision part") {
  const ModelSpec m = model("qwen3-vl-8b");
  CHECK(kv_footprint(m, false).growing_per_token == 147'456);
  CHECK(kv_bytes(m, 8192, false) == Bytes(1'207'959'552));
  CHECK(assumes(m, "`text_config`"));
  CHECK(m.hidden == 4096);
}

TEST_CASE("Qwen3.5-27B: a quarter of the layers grows, the rest is constant state") {
  const ModelSpec m = model("qwen3.5-27b");
  const KvFootprint kv = kv_footprint(m, false);
  CHECK(kv.growing_per_token == 65'536);  // 16 x 2 x 4 x 256 x 2
  // 48 x ((2 x 16 x 128 + 48 x 128) x 3 x 2 + 48 x 128 x 128 x 4)
  CHECK(kv.constant == Bytes(153'944'064));
  CHECK(kv_bytes(m, 8192, false) == Bytes(690'814'976));
  CHECK(static_cast<double>(parameter_count(m)) == doctest::Approx(27e9).epsilon(0.01));
}

TEST_CASE("ChatGLM2-6B: older names, two groups behind a flag") {
  const ModelSpec m = model("chatglm2-6b");
  CHECK(kv_footprint(m, false).growing_per_token == 28'672);  // 28 x 2 x 2 x 128 x 2
  CHECK(m.max_position == 32'768);
  CHECK(m.vocabulary == 65'024);
  CHECK(static_cast<double>(parameter_count(m)) == doctest::Approx(6.24e9).epsilon(0.01));
}
