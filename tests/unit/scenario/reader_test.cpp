// What a scenario file becomes: the paper's testbed, value by value, and presets with overrides.

#include <doctest/doctest.h>

#include "sim/scenario/instance_file.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/strategy_file.h"
#include "tests/unit/scenario/support.h"

using namespace kvlane;

namespace {

const std::vector<std::string> kPresets{"scenarios"};

Scenario paper(const std::vector<std::string>& overrides = {}) {
  return read_scenario("scenarios/paper/l20-batch6.yaml", overrides, kPresets);
}

const StrategyOptions& strategy(const Scenario& scenario, const std::string& name) {
  for (const StrategyOptions& options : scenario.strategies)
    if (options.name == name) return options;
  throw std::runtime_error("no strategy " + name);
}

}  // namespace

TEST_CASE("paper/l20-batch6 is the testbed of the paper") {
  const Scenario s = paper();
  CHECK(s.model.layer_count() == 32);
  REQUIRE(s.instances.size() == 2);
  const InstanceGroup& prefill = s.instances[0];
  const InstanceGroup& decode = s.instances[1];
  CHECK(prefill.role == Role::prefill);
  CHECK(prefill.count == 3);
  CHECK(prefill.gpus == 2);
  CHECK(prefill.tp == 1);
  CHECK(prefill.gpu.name == "L20");
  CHECK(prefill.nic.rate == Bandwidth::gbit_per_sec(32));
  CHECK(decode.role == Role::decode);
  CHECK(decode.count == 1);
  CHECK(decode.gpus == 1);
  CHECK(decode.nic.rate == Bandwidth::gbit_per_sec(25));
  CHECK(decode.nic.max_send_sge == 6);
  CHECK(decode.nic.max_recv_sge == 1);
  CHECK(decode.nic.max_read_sge == 1);
  CHECK(decode.nic.max_inline == Bytes(96));
  CHECK(decode.host_memory == Bytes(std::int64_t{128} << 30));
  REQUIRE(s.prompts.size() == 1);
  CHECK(s.prompts[0].count == 6);
  CHECK(s.prompts[0].tokens == 10'000);
  CHECK(s.prompts[0].prefix_hit == 0.75);
  CHECK(s.output_tokens == 64);
  CHECK(s.serving.first_token == FirstToken::prefill);
  CHECK(s.serving.kv_placement == KvPlacement::host);
  CHECK(s.serving.blocks == 1024);
  CHECK(s.serving.dense_layers == 2);
  CHECK(s.selection.method == Selector::infinigen);
  CHECK(s.selection.count == SelectCount::cap);
  CHECK(s.selection.cap == 0.20);
  for (const char* name : {"ideal", "full", "sequential", "hack", "smartgen"})
    CHECK(to_string(strategy(s, name).policy) == std::string(name));
  // Without a network in the file: every group on one switch that limits nothing.
  CHECK(s.switches == std::vector<std::string>{"switch"});
  REQUIRE(s.cables.size() == 2);
  CHECK(s.cables[0].from == "prefill");
  CHECK(s.cables[0].to == "switch");
  CHECK(s.cables[0].rate.is_unlimited());
}

TEST_CASE("policies set defaults, keys deviate from them") {
  const Scenario s = paper({"strategies.smartgen.speculative_ratio=5 %"});
  CHECK(strategy(s, "smartgen").order == PushOrder::profile);
  CHECK(strategy(s, "smartgen").on_demand == OnDemand::parallel);
  CHECK(strategy(s, "smartgen").speculative);
  CHECK(strategy(s, "smartgen").speculative_ratio == 0.05);
  CHECK(strategy(s, "sequential").order == PushOrder::sequential);
  CHECK(strategy(s, "sequential").on_demand == OnDemand::serial);
  CHECK_FALSE(strategy(s, "sequential").speculative);
  CHECK(strategy(s, "hack").payload == Payload::hack2);
  CHECK(strategy(s, "hack").kv_placement == KvPlacement::gpu);
  CHECK(strategy(s, "hack_host").kv_placement == KvPlacement::host);
  CHECK(strategy(s, "full_after_prefill").overlap == Overlap::none);
}

TEST_CASE("overrides reach through presets") {
  const Scenario s = paper({"instances.decode.nic.rate=15 Gbps", "instances.decode.gpu=l40s",
                            "workload.prompts.0.tokens=8192", "model=Qwen3-8B",
                            "instances.decode.gpu.memory=80 GB", "instances.decode.price=1 USD/h"});
  CHECK(s.instances[1].nic.rate == Bandwidth::gbit_per_sec(15));
  CHECK(s.instances[1].nic.max_send_sge == 6);
  CHECK(s.instances[1].gpu.name == "L40S");
  CHECK(s.instances[1].gpu.memory == Bytes(80'000'000'000));
  CHECK(s.instances[1].gpu.source.at("memory") == Source::assumed);
  CHECK(s.instances[1].price_per_hour == 1.0);
  CHECK(s.prompts[0].tokens == 8192);
  CHECK(s.model.layer_count() == 36);
}

TEST_CASE("overrides are checked like the file") {
  const auto error = [](const std::string& text) { return test::error_of([&] { paper({text}); }); };
  CHECK(error("instances.decode.nic.rate=15") ==
        "--set:1:27: the bare number `15` has no unit; expected a rate such as `25 Gbps`");
  CHECK(error("strategies.smartgen.speculativ_ratio=5 %") ==
        "--set:1:21: unknown key `speculativ_ratio` in strategy; expected a key of strategy "
        "(nearest: `speculative_ratio`)");
  CHECK(error("workload.prompts.0.tokens=131072").find("--set:1:27: 131072 prompt + 64 output") ==
        0);
  CHECK(error("model=nowhere/config.json") ==
        "--set:1:7: `nowhere/config.json` is not a file; expected a file (looked for "
        "nowhere/config.json)");
}

TEST_CASE("the documented instance types are there with their baselines") {
  InputFiles files(kPresets);
  const auto type = [&](const char* name) { return find_instance_type({name, {"t"}}, files); };
  CHECK(type("ecs.gn8is.4xlarge").rate == Bandwidth::gbit_per_sec(16));
  CHECK(type("ecs.gn8is-2x.8xlarge").gpus == 2);
  CHECK(type("g6.xlarge").rate == Bandwidth::gbit_per_sec(2.5));
  CHECK(type("g6.xlarge").price == 0.8048);
  CHECK(type("g6.xlarge").burst == Bandwidth::gbit_per_sec(10));
  CHECK(type("p5.48xlarge").rate == Bandwidth::gbit_per_sec(3200));
  CHECK(type("a2-ultragpu-8g").gpus == 8);
  CHECK(type("Standard_NC48ads_A100_v4").price == 7.346);
  CHECK(type("ecs.gn8is.4xlarge").source_of("rate").source == Source::table);
  CHECK(type("ecs.gn8is.4xlarge").source_of("price").source == Source::assumed);
}

TEST_CASE("groups of several instances") {
  InstanceGroup group;
  group.name = "p";
  CHECK(instance_names(group) == std::vector<std::string>{"p"});
  group.count = 2;
  CHECK(instance_names(group) == std::vector<std::string>{"p-0", "p-1"});
}

TEST_CASE("replay: the trace of the scenario is read, its path relative to the file") {
  const Scenario s = read_scenario("scenarios/smoke/replay.yaml", {}, kPresets);
  REQUIRE(s.selection.trace.has_value());
  CHECK(s.selection.trace->prompt_tokens == 4096);
  CHECK(s.selection.trace->model_layers == 18);
}

TEST_CASE("events: a failure is a rate of zero") {
  const Scenario s = read_scenario("scenarios/smoke/link_failure.yaml", {}, kPresets);
  REQUIRE(s.link_events.size() == 3);
  CHECK(s.link_events[1].rate.bits_per_sec() == 0);
  CHECK(s.link_events[1].at == std::chrono::milliseconds(60));
}
