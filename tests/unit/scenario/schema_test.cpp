#include "sim/scenario/schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/scenario/support.h"

using namespace kvlane;
using test::error_of;

namespace {

enum class Mode { fast, slow };

struct End {
  std::string name;
  int ports = 1;
};

struct Wire {
  std::string name;
  Bandwidth rate;
  std::optional<Duration> latency;
  double efficiency = 0.5;
  std::int64_t count = 7;
  Mode mode = Mode::fast;
  bool spare = false;
  std::vector<End> ends;
  std::string rate_source;
};

const Mapping<Wire>& wire_mapping() {
  using enum Need;
  static const Mapping<End> end = Mapping<End>("end", "An end.")
                                      .text("name", &End::name, required, "Name.")
                                      .integer("ports", &End::ports, optional, "Ports.", {1, 64})
                                      .default_value("1");
  static const Mapping<Wire> table =
      Mapping<Wire>("wire", "A cable.")
          .sources(SourceRule::optional,
                   [](Wire& w, const std::string& key, const SourceNote& note) {
                     if (key == "rate") w.rate_source = note.from;
                   })
          .text("name", &Wire::name, required, "Name.")
          .quantity("rate", &Wire::rate, required, "Rate.", kPositive)
          .quantity("latency", &Wire::latency, optional, "One way.")
          .share("efficiency", &Wire::efficiency, optional, "Share.")
          .integer("count", &Wire::count, optional, "How many.", {1, 1000})
          .words("mode", &Wire::mode, {{"fast", Mode::fast}, {"slow", Mode::slow}}, optional,
                 "Mode.")
          .boolean("spare", &Wire::spare, optional, "Spare.")
          .list("ends", &Wire::ends, end, optional, "Two ends.", {2, 2});
  return table;
}

Wire read(const std::string& text) {
  Wire wire;
  wire_mapping().read(parse_yaml(text, "f.yaml"), wire);
  return wire;
}

std::string error(const std::string& text) {
  return error_of([&] { read(text); });
}

}  // namespace

TEST_CASE("schema: values arrive, absent ones keep the struct's default") {
  const Wire all = read(
      "name: w\nrate: 25 Gbps\nlatency: 1 us\nefficiency: 92 %\ncount: 3\nmode: slow\nspare: true\n"
      "ends: [{name: a}, {name: b, ports: 4}]\n");
  CHECK(all.rate == Bandwidth::gbit_per_sec(25));
  CHECK(all.latency == Duration(1'000'000));
  CHECK(all.efficiency == 0.92);
  CHECK(all.count == 3);
  CHECK(all.mode == Mode::slow);
  CHECK(all.spare);
  REQUIRE(all.ends.size() == 2);
  CHECK(all.ends[0].ports == 1);
  CHECK(all.ends[1].ports == 4);
  const Wire few = read("{name: w, rate: 1 bps}");
  CHECK(few.efficiency == 0.5);
  CHECK(few.count == 7);
  CHECK_FALSE(few.latency.has_value());
}

TEST_CASE("schema: a value with its source") {
  CHECK(read("{name: w, rate: {value: 1 Gbps, source: table, from: a page}}").rate_source ==
        "a page");
  CHECK(error("{name: w, rate: {value: 1 Gbps, source: guess, from: a page}}")
            .find("expected one of measured, table") != std::string::npos);
  CHECK(error("{name: w, rate: {value: 1 Gbps, from: a page}}").find("`source` is missing") !=
        std::string::npos);
  CHECK(error("{name: w, rate: {value: 1 Gbps, sorce: table}}").find("unknown key `sorce`") !=
        std::string::npos);
}

TEST_CASE("schema: the first error in the order of the file") {
  CHECK(error("name: w\ncount: 0\nrate: 5\n") ==
        "f.yaml:2:8: `0` is out of range; expected 1 to 1000");
}

TEST_CASE("schema: errors of keys") {
  CHECK(error("name: w\nrat: 1 Gbps\n") ==
        "f.yaml:2:1: unknown key `rat` in wire; expected a key of wire (nearest: `rate`)");
  CHECK(error("name: w\nzzzzzzzzzzzz: 1\n").find("expected one of name, rate, latency") !=
        std::string::npos);
  CHECK(error("name: w\n") ==
        "f.yaml:1:1: the key `rate` is missing in wire; expected rate: Rate.");
  CHECK(error("name: w\nname: v\n") ==
        "f.yaml:2:1: the key `name` a second time; expected every key once");
  CHECK(error("name: w\nrate:\n") ==
        "f.yaml:2:1: no value for `rate`; expected a value, or the key left out");
  CHECK(error("name: w\nrate: ~\n").find("no value for `rate`") != std::string::npos);
}

TEST_CASE("schema: errors of types") {
  CHECK(error("[1]") == "f.yaml:1:1: a list; expected a mapping: wire");
  CHECK(error("name: {a: 1}") == "f.yaml:1:7: a mapping; expected text");
  CHECK(error("name: ''") == "f.yaml:1:7: an empty text; expected text");
  CHECK(error("count: 1.5") ==
        "f.yaml:1:8: `1.5` is not a whole number; expected a whole number without a unit");
  CHECK(error("count: 3 GB").find("not a whole number") != std::string::npos);
  CHECK(error("count: '3'").find("in quotes is text") != std::string::npos);
  CHECK(error("count: .inf").find("not a finite number") != std::string::npos);
  CHECK(error("spare: yes") == "f.yaml:1:8: `yes`; expected true or false");
  CHECK(error("mode: fas") == "f.yaml:1:7: `fas`; expected one of fast, slow (nearest: `fast`)");
  CHECK(error("ends: {name: a}") == "f.yaml:1:7: a mapping; expected a list");
  CHECK(error("ends: [{name: a}]") == "f.yaml:1:7: a list of 1; expected 2 to 2 items");
  CHECK(error("ends: [{name: a}, {ports: 65}]").find("expected 1 to 64") != std::string::npos);
  CHECK(error("efficiency: 101 %") ==
        "f.yaml:1:13: `101 %` is out of range; expected 0 % to 100 %");
  CHECK(error("rate: 0 Gbps") == "f.yaml:1:7: `0 Gbps` is out of range; expected more than 0 bps");
  CHECK(error("latency: -1 us") == "f.yaml:1:10: `-1 us` is out of range; expected at least 0 s");
}

TEST_CASE("yaml: what is refused, with its place") {
  CHECK(error("") == "f.yaml:1:1: an empty file; expected a mapping");
  CHECK(error("# only\n# comments\n").find("an empty file") != std::string::npos);
  CHECK(error("name: w\n---\nname: v\n").find("a second document") != std::string::npos);
  CHECK(error("name: &a w\n").find("f.yaml:1:7: an anchor") == 0);
  CHECK(error("name: *a\n").find("f.yaml:1:") == 0);
  CHECK(error("name: !!str w\n").find("the tag `tag:yaml.org,2002:str`") != std::string::npos);
  CHECK(error("<<: {name: w}\n").find("a merge key") != std::string::npos);
  CHECK(error("name: w\n\trate: 1\n") == "f.yaml:2:1: a tab in the indentation; expected spaces");
  CHECK(error("? [a]\n: b\n").find("a list or mapping as a key") != std::string::npos);
  CHECK(error("name: [w\n").find("not YAML") != std::string::npos);
  CHECK(error(std::string("name: w\0", 8)).find("control character 0x00") != std::string::npos);
  CHECK(error("name: \xff\n") == "f.yaml:1:7: a byte that is not UTF-8; expected text in UTF-8");
  CHECK(error("name: \xc3\xa9\nrate: 1 bps\n") == "no error");
}

TEST_CASE("yaml: limits") {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  CHECK(error("name: " + deep).find("more than 32 levels") != std::string::npos);
  std::string wide = "ends: [";
  for (int i = 0; i < 400'001; ++i) wide += "1,";
  CHECK(error(wide + "]").find("more than 400000 values") != std::string::npos);
  CHECK(error("count: " + std::string(100'000, '9')).find("out of range") != std::string::npos);
}

TEST_CASE("schema: JSON Schema says the same as the reader") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema_text(wire_mapping(), "wire"));
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["required"] == nlohmann::json({"name", "rate"}));
  const nlohmann::json& properties = schema["properties"];
  CHECK(properties.size() == wire_mapping().fields().size());
  CHECK(properties["mode"]["enum"] == nlohmann::json({"fast", "slow"}));
  CHECK(properties["count"]["anyOf"][0]["minimum"] == 1);
  CHECK(properties["count"]["anyOf"][0]["maximum"] == 1000);
  CHECK(properties["ends"]["minItems"] == 2);
  CHECK(properties["ends"]["items"]["$ref"] == "#/$defs/end");
  CHECK(schema["$defs"]["end"]["properties"]["ports"]["default"] == "1");
  const std::string pattern = properties["rate"]["anyOf"][0]["pattern"];
  CHECK(pattern.find("|Gbps|") != std::string::npos);
}
