#include "sim/report/result_json.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/input_error.h"
#include "sim/report/json_writer.h"
#include "tests/unit/report/sample_result.h"

using namespace kvlane;
using test::sample_result;

namespace {

std::string error_of(const std::string& text) {
  try {
    result_from_json("r.json", text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("result JSON: the keys of the contract, in their order") {
  const auto json = nlohmann::ordered_json::parse(result_to_json(sample_result()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"schema", "scenario", "inputs", "seed", "run_hash",
                                         "weakest_source", "weakest_constant", "outside_domain",
                                         "from_table", "first_token", "warnings", "verdict",
                                         "strategies"});
  keys.clear();
  for (const auto& [key, value] : json["strategies"][0].items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"name", "policy", "endpoint", "note", "metrics",
                                         "ttst_parts_s", "ttft_parts_s", "ctl_s", "prefill_s",
                                         "transfer_s", "bytes", "on_demand_ratio",
                                         "local_after_iteration", "attention_mass", "utilisation",
                                         "cost_per_million_tokens", "speedup_vs_full"});
  keys.clear();
  for (const auto& [key, value] : json["strategies"][0]["metrics"].items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"ttft_s", "ttst_s", "second_token_s", "stall_s", "tbt_s",
                                         "jct_s"});
  CHECK(json["schema"] == "kvlane.result/1");
  CHECK(json["seed"] == 7);
  CHECK(json["strategies"][0]["metrics"]["ttst_s"]["p99"] == 4.5);
  CHECK(json["strategies"][0]["cost_per_million_tokens"].is_null());
  CHECK(json["strategies"][1]["bytes"]["speculative"] == 400'000);
  CHECK(json["strategies"][1]["ttst_parts_s"]["wire"] == 1.0);
}

TEST_CASE("result JSON: spread appears with seeds only") {
  Result result = sample_result();
  CHECK(result_to_json(result).find("spread") == std::string::npos);
  result.strategies[0].ttst_s.spread = 0.125;
  const auto json = nlohmann::json::parse(result_to_json(result));
  CHECK(json["strategies"][0]["metrics"]["ttst_s"]["spread"] == 0.125);
}

TEST_CASE("result JSON: reads back to the same text") {
  Result result = sample_result();
  result.strategies[0].ttst_s.spread = 0.1;
  result.strategies[0].attention_mass.reset();
  result.strategies[0].local_after_iteration.reset();
  result.scenario = "name with \"quotes\" and a \\ backslash";
  const std::string text = result_to_json(result);
  CHECK(result_to_json(result_from_json("r.json", text)) == text);
}

TEST_CASE("result JSON: weakest constant, domain, tables and intervals, there and back") {
  const Result result = test::uncertain_result();
  const std::string text = result_to_json(result);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["weakest_constant"] == "L20 host_step");
  CHECK(json["outside_domain"][0] == nlohmann::json::parse(R"({"gpu": "L20",
      "kernel": "prefill_attention", "dimension": "tokens", "value": 48000, "low": 64,
      "high": 16384})"));
  CHECK(json["from_table"][0] == nlohmann::json::parse(R"({"gpu": "L20", "kernel": "gemm",
      "inside": 12, "outside": 3, "first_outside": "m=3, n=4096, k=4096"})"));
  CHECK(json["strategies"][0]["metrics"]["ttft_s"]["low"] == 1.125);
  CHECK(json["strategies"][0]["metrics"]["ttft_s"]["high"] == 2.25);
  CHECK(json["uncertainty"]["draws"] == 200);
  CHECK(json["uncertainty"]["without_error"] == std::vector<std::string>{"L20 (host)", "erdma"});
  CHECK(json["uncertainty"]["ratios"][1] == nlohmann::json::parse(R"({"of": "hack",
      "against": "full", "metric": "jct_s", "ratio": 0.8, "low": 0.5, "high": 1.25})"));
  CHECK(result_to_json(result_from_json("r.json", text)) == text);
  CHECK(!nlohmann::json::parse(result_to_json(sample_result())).contains("uncertainty"));

  // Results of versions before them are read as well.
  auto old = nlohmann::json::parse(result_to_json(sample_result()));
  for (const char* key : {"weakest_constant", "outside_domain", "from_table"}) old.erase(key);
  CHECK(error_of(old.dump()) == "no error");
}

TEST_CASE("result JSON: an interval that is none is refused") {
  const auto broken = [](auto change) {
    auto json = nlohmann::json::parse(result_to_json(test::uncertain_result()));
    change(json);
    return error_of(json.dump());
  };
  using J = nlohmann::json;
  CHECK(broken([](J&) {}) == "no error");
  CHECK(broken([](J& j) {
          j["strategies"][0]["metrics"]["ttft_s"]["low"] = 3;
        }).find("metrics.ttft_s is low 3, high 2.25") != std::string::npos);
  CHECK(broken([](J& j) {
          j["strategies"][0]["metrics"]["ttft_s"].erase("high");
        }).find("no strategies[0].metrics.ttft_s.high") != std::string::npos);
  CHECK(broken([](J& j) {
          j["uncertainty"]["ratios"][0]["low"] = 0.75;
        }).find("uncertainty.ratios[0] is") != std::string::npos);
  CHECK(broken([](J& j) { j["uncertainty"]["draws"] = -1; }).find("uncertainty.draws is -1") !=
        std::string::npos);
  CHECK(broken([](J& j) {
          j["outside_domain"][0]["value"] = "x";
        }).find("outside_domain[0].value is string") != std::string::npos);
  CHECK(broken([](J& j) {
          j["from_table"][0]["inside"] = 0.5;
        }).find("from_table[0].inside is 0.5") != std::string::npos);
}

TEST_CASE("result JSON: a sum that does not hold is refused, and named") {
  const auto broken = [](auto change) {
    Result result = sample_result();
    change(result.strategies[1]);
    try {
      result_to_json(result);
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(broken([](StrategyResult& s) { s.ttst_parts_s.queue += 1e-6; }).find("parts of TTST") !=
        std::string::npos);
  CHECK(broken([](StrategyResult& s) { s.ttft_parts_s.step = 0; }).find("parts of TTFT") !=
        std::string::npos);
  CHECK(broken([](StrategyResult& s) { s.bytes_metadata -= 1; }).find("total is") !=
        std::string::npos);
  CHECK(broken([](StrategyResult& s) { s.utilisation["decode rx"] = 1.5; }).find("decode rx") !=
        std::string::npos);
  CHECK(broken([](StrategyResult& s) {
          s.tbt_s.p99 = std::numeric_limits<double>::quiet_NaN();
        }).find("not a number") != std::string::npos);
  CHECK(broken([](StrategyResult&) {}) == "no error");
}

TEST_CASE("result JSON reader: what is not a kvlane.result/1 is an error that says where") {
  const std::string good = result_to_json(sample_result());
  CHECK(error_of("{\"schema\": \"kvlane.result/1\",\n  oops}") ==
        "r.json:2:3: text that is not JSON; expected a kvlane.result/1 as `kvlane run --format "
        "json` writes "
        "it");
  CHECK(error_of("[1]") ==
        "r.json: JSON without a schema key; expected \"schema\": \"kvlane.result/1\"");
  CHECK(error_of(replaced(good, "kvlane.result/1", "kvlane.paper/1")) ==
        "r.json: schema kvlane.paper/1; expected kvlane.result/1");
  CHECK(error_of(replaced(good, "\"prefill_s\": 1", "\"prefill_s\": \"1 s\"")) ==
        "r.json: strategies[0].prefill_s is string; expected a number");
  CHECK(error_of(replaced(good, "\"transfer_s\"", "\"transfer\"")) ==
        "r.json: no strategies[0].transfer_s; expected every key of kvlane.result/1");
  CHECK(error_of(replaced(good, "\"seed\": 7", "\"seed\": -7")) ==
        "r.json: seed is -7; expected an integer that is not negative");
  CHECK(error_of("") != "no error");
  CHECK(error_of(good) == "no error");
}

TEST_CASE("result JSON reader: values that no run gives are refused") {
  const auto broken = [](void (*change)(nlohmann::json&)) {
    nlohmann::json json = nlohmann::json::parse(result_to_json(sample_result()));
    change(json);
    return error_of(json.dump());
  };
  const auto says = [&](void (*change)(nlohmann::json&), const std::string& part) {
    const std::string error = broken(change);
    CAPTURE(error);
    return error.find(part) != std::string::npos && error.find("; expected ") != std::string::npos;
  };
  using J = nlohmann::json;
  CHECK(broken([](J&) {}) == "no error");
  CHECK(says([](J& j) { j["strategies"][0]["metrics"]["tbt_s"]["p90"] = 9; }, "metrics.tbt_s is"));
  CHECK(
      says([](J& j) { j["strategies"][0]["metrics"]["tbt_s"]["mean"] = -1; }, "tbt_s.mean is -1"));
  CHECK(says([](J& j) { j["strategies"][0]["prefill_s"] = 1e308; }, "prefill_s is 1e+308"));
  CHECK(says([](J& j) { j["strategies"][1]["cost_per_million_tokens"] = 1e308; }, "1e+308"));
  CHECK(says([](J& j) { j["strategies"][0]["bytes"]["control"] = -1; }, "bytes.control is -1"));
  CHECK(says([](J& j) { j["strategies"][0]["attention_mass"] = 1.5; }, "attention_mass is 1.5"));
  CHECK(says([](J& j) { j["strategies"][0]["on_demand_ratio"][1] = -0.5; }, "[1] is -0.5"));
  CHECK(says([](J& j) { j["strategies"][1]["name"] = "full"; }, "`full` a second time"));
  CHECK(says([](J& j) { j["strategies"] = J::array(); }, "strategies is empty"));
  CHECK(says([](J& j) { j["scenario"] = "a\x1b[2Jb"; }, "control character"));
  // A stall may lie below zero: the ideal is that of the whole batch.
  CHECK(broken([](J& j) {
          for (auto& [name, value] : j["strategies"][0]["metrics"]["stall_s"].items()) value = -0.5;
        }) == "no error");
}

TEST_CASE("JsonWriter: misuse is a broken invariant") {
  JsonWriter json;
  json.begin_object();
  CHECK_THROWS_AS(json.value(1.0), std::logic_error);
  CHECK_THROWS_AS(json.end_array(), std::logic_error);
  CHECK_THROWS_AS(json.finish(), std::logic_error);
}
