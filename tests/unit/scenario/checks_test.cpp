// Checks across values, in a small scenario that is right until one thing is changed.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/scenario/overrides.h"
#include "sim/scenario/scenario_file.h"
#include "tests/unit/scenario/support.h"

using namespace kvlane;

namespace {

// SmolLM2-135M: 30 layers, 9 heads, 3 KV heads of 64, 8192 tokens, 134.5 M parameters.
constexpr const char* kSmall = R"(
name: small
model: smollm2-135m
instances:
  - {name: p, role: prefill, count: 2, gpu: a100-80-sxm, nic: {base: erdma, rate: 4 Gbps}}
  - {name: d, role: decode, gpu: a100-80-sxm, nic: {base: erdma, rate: 2 Gbps}}
workload:
  prompts:
    - {count: 4, tokens: 1000}
  output_tokens: 10
strategies:
  - {name: full, policy: full}
  - {name: s, policy: smartgen}
  - {name: h, policy: hack}
)";

Scenario small(const std::vector<std::string>& overrides) {
  InputFiles files({"scenarios"});
  YamlNode root = parse_yaml(kSmall, "f.yaml");
  for (const std::string& text : overrides) apply_override(root, text);
  return scenario_from_yaml(root, files);
}

std::string error(const std::vector<std::string>& overrides) {
  return test::error_of([&] { small(overrides); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("checks: the small scenario is right") { CHECK(error({}) == "no error"); }

TEST_CASE("checks: tensor parallelism divides heads, KV heads and GPUs") {
  CHECK(error({"instances.d.gpus=3", "instances.d.tp=3"}).find("tp 3 on A100") !=
        std::string::npos);  // heads divide, but the GPU file has no all-reduce of three
  CHECK(has(error({"instances.d.gpus=2", "instances.d.tp=2"}), "tp 2 with 9 query heads"));
  CHECK(has(error({"instances.d.gpus=9", "instances.d.tp=9"}), "tp 9 with 3 KV heads"));
  CHECK(has(error({"instances.d.gpus=4", "instances.d.tp=3"}), "tp 3 with 4 GPUs"));
  CHECK(error({"model=llama-3.1-8b", "instances.d.gpus=4", "instances.d.tp=4"}) == "no error");
}

TEST_CASE("checks: the longest prompt is prompt and output together") {
  CHECK(error({"workload.prompts.0.tokens=8182"}) == "no error");  // 8182 + 10 = 8192
  CHECK(has(error({"workload.prompts.0.tokens=8183"}), "= 8193 tokens; expected at most 8192"));
}

TEST_CASE("checks: GPU memory is weights, KV of the sequences held, and the reserve") {
  // On the GPU a decode instance holds all four sequences of 1010 tokens: 4 * 1010 * 23040 B =
  // 93.1 MB; with 269.0 MB of weights and 3.5 GB of reserve 3.8621 GB.
  const auto with = [](const char* memory) {
    return error({"serving.kv_placement=gpu", std::string("instances.d.gpu.memory=") + memory});
  };
  CHECK(with("3.87 GB") == "no error");
  CHECK(has(with("3.85 GB"), "d needs 3.9 GB of GPU memory in strategy full"));
  CHECK(has(with("3.85 GB"), "KV of 4 x 1010 tokens on the GPU"));
  // Offloaded, the two dense layers and two layers' selected rows are left: 2 + 2 * 0.2 of 30
  // layers' 93.1 MB are 7.4 MB: 3.777 GB. HACK keeps its 2-bit KV on the GPU: 3.786 GB.
  CHECK(error({"instances.d.gpu.memory=3.79 GB"}) == "no error");
  CHECK(has(error({"instances.d.gpu.memory=3.78 GB"}), "in strategy h"));
  CHECK(has(error({"instances.d.gpu.memory=3.77 GB"}), "in strategy full"));
  // Two decode workers hold two sequences each.
  CHECK(error({"serving.kv_placement=gpu", "instances.d.gpu.memory=3.85 GB",
               "instances.d.count=2"}) == "no error");
}

TEST_CASE("checks: host memory holds the KV of an instance's requests") {
  // Decode: 4 * 1010 * 23040 B = 93.1 MB. Prefill: two of the four prompts: 2 * 1000 * 23040 B =
  // 46.1 MB.
  CHECK(error({"instances.d.host_memory=94 MB"}) == "no error");
  CHECK(has(error({"instances.d.host_memory=93 MB"}), "d needs 0.1 GB of host memory"));
  CHECK(error({"instances.p.host_memory=47 MB"}) == "no error");
  CHECK(has(error({"instances.p.host_memory=46 MB"}), "p needs 0.0 GB of host memory"));
  CHECK(error({"instances.d.host_memory=1 MB", "serving.kv_placement=gpu"}) == "no error");
}

TEST_CASE("checks: names are unique over instances, their members and switches") {
  CHECK(has(error({"instances.d.name=p"}), "the name `p` a second time"));
  CHECK(has(error({"instances.d.name=p-1"}), "the name `p-1` a second time"));
  CHECK(has(error({"strategies.s.name=full"}), "the strategy `full` a second time"));
}

TEST_CASE("checks: networks") {
  const auto network = [](const std::string& links) {
    return error({"network={switches: [{name: a}, {name: b}], links: [" + links + "]}"});
  };
  CHECK(network("{from: p, to: a}, {from: d, to: a}") == "no error");
  CHECK(network("{from: p, to: a}, {from: a, to: b}, {from: d, to: b}") == "no error");
  CHECK(network("{from: p-0, to: a}, {from: p-1, to: b}, {from: d, to: a}, {from: b, to: a}") ==
        "no error");
  CHECK(has(network("{from: p-0, to: a}, {from: d, to: a}"), "no way from `p-0` to `p-1`"));
  CHECK(has(network("{from: p, to: a}, {from: d, to: b}"), "no way from `p-0` to `d`"));
  CHECK(has(network("{from: p, to: a}, {from: d, to: c}"), "no instance or switch `c`"));
  CHECK(has(network("{from: p, to: a}, {from: a, to: p-0}, {from: d, to: a}"),
            "a second link between `a` and `p-0`"));
  CHECK(has(network("{from: a, to: a}"), "a link from `a` to itself"));
}

TEST_CASE("checks: options that mean nothing to the policy") {
  for (const char* option : {"order=profile", "speculative=true", "on_demand=serial", "budget=10 %",
                             "keep_fetched=false", "select=dense", "auto_switch=true", "gdr=true"})
    CHECK_MESSAGE(has(error({std::string("strategies.full.") + option}), "means nothing to policy"),
                  option);
  for (const char* option : {"overlap=none", "select=dense", "partition=64"})
    CHECK_MESSAGE(has(error({std::string("strategies.s.") + option}), "means nothing to policy"),
                  option);
  for (const char* option : {"order=profile", "payload=fp8"})
    CHECK_MESSAGE(has(error({std::string("strategies.h.") + option}), "means nothing to policy"),
                  option);
  CHECK(has(error({"strategies.h.selection=hata"}), "`selection` with a dense hack"));
  CHECK(error({"strategies.h.selection=hata", "strategies.h.select=selected"}) == "no error");
  CHECK(has(error({"strategies.h.partition=48"}), "expected 32, 64 or 128"));
  CHECK(has(error({"strategies.s.policy=sequential", "strategies.s.order=profile"}),
            "expected sequential or sequential_tokens"));
  CHECK(has(error({"strategies.s.payload=hack2"}), "expected one of bf16, fp8, int4"));
}

TEST_CASE("checks: HACK without int8 tensor cores is a warning") {
  const Scenario s = small({"instances.d.gpu=v100s"});
  REQUIRE(s.warnings.size() == 1);
  CHECK(has(s.warnings[0], "strategy h: V100S-PCIe has no int8 tensor cores"));
  CHECK(small({}).warnings.empty());
}

TEST_CASE("checks: outputs name strategies that exist") {
  CHECK(error({"outputs.only=[full]"}) == "no error");
  CHECK(has(error({"outputs.only=[ful]"}), "no strategy `ful`"));
}

TEST_CASE("checks: values whose times would leave the clock, or whose sizes no run survives") {
  const auto refused = [](const std::string& key, const std::string& value) {
    const std::string text = error({key + "=" + value});
    CAPTURE(key);
    CAPTURE(text);
    return has(text, "out of range; expected ") || has(text, " in all; expected ");
  };
  CHECK(refused("instances.d.nic.rate", "1 bps"));
  CHECK(refused("instances.d.nic.efficiency", "0.0001 %"));
  CHECK(refused("instances.d.nic.latency", "1 h"));
  CHECK(refused("instances.d.nic.per_message", "2 s"));
  CHECK(refused("instances.d.nic.message_rate", "1 msg/s"));
  CHECK(refused("instances.d.gpu.memory_bandwidth", "1 B/s"));
  CHECK(refused("instances.d.gpu.pcie_h2d", "1 KB/s"));
  CHECK(refused("instances.d.gpu.peak_flops", "1 FLOPS"));
  CHECK(refused("instances.d.gpu.peak_int8_ops", "1 OPS"));
  CHECK(error({"instances.d.gpu.peak_int8_ops=0 OPS"}) == "no error");
  CHECK(refused("instances.d.gpu.gemm_t0", "1 h"));
  CHECK(refused("instances.d.gpu.prefill_s0", "1e9"));
  CHECK(refused("instances.d.gpu.decode_em", "0.01 %"));
  CHECK(refused("instances.d.price", "1e308 USD/h"));
  CHECK(refused("serving.router_hop", "1 h"));
  CHECK(refused("serving.idle_poll", "61 s"));
  CHECK(refused("serving.blocks", "65536"));
  CHECK(error({"serving.blocks=65535"}) == "no error");
  CHECK(refused("workload.prompts.0.tokens", "10000001"));
  CHECK(refused("workload.output_tokens", "65537"));
  CHECK(refused("selection.texts", "257"));
  CHECK(refused("seeds", "10001"));
  // 4 x 3000 requests, 2 + 1024 x 4 instances.
  const std::string shapes =
      "[{count: 3000, tokens: 9}, {count: 3000, tokens: 9}, {count: 3000, tokens: 9}, "
      "{count: 3000, tokens: 9}]";
  CHECK(refused("workload.prompts", shapes));
  CHECK(refused("instances.p.count", "1025"));
}

TEST_CASE("checks: a text is one line without control characters, and no message holds one") {
  for (const char* name : {R"("a\0b")", R"("a\e[2J")", R"("a\nb")", R"("a\N b")"}) {
    const std::string text = error({std::string("name=") + name});
    CAPTURE(text);
    CHECK(has(text, "; expected text on one line"));
    CHECK(std::none_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
  }
  CHECK(error({"name=\"Zürich\""}) == "no error");
}

TEST_CASE("messages: shortened and escaped, nothing lost behind a NUL") {
  using namespace std::string_literals;
  const InputError error({"f\n.yaml", 1, 2}, "`a\0b`"s, "expected `" + std::string(200, 'x') + "`");
  const std::string text = error.what();
  CHECK(text == "f\\n.yaml:1:2: `a\\x00b`; expected `" + std::string(77, 'x') + "...`");
}
