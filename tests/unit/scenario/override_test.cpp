#include <doctest/doctest.h>

#include "sim/scenario/overrides.h"
#include "tests/unit/scenario/support.h"

using namespace kvlane;
using test::error_of;

namespace {

YamlNode tree() {
  return parse_yaml(
      "name: s\n"
      "instances:\n"
      "  - {name: decode, nic: erdma}\n"
      "  - {name: node.1, tp: 1}\n"
      "workload:\n"
      "  prompts: [{tokens: 10}, {tokens: 20}]\n",
      "f.yaml");
}

std::string override_error(const std::string& text) {
  YamlNode root = tree();
  return error_of([&] { apply_override(root, text); });
}

}  // namespace

TEST_CASE("--set changes, adds and reaches list items by name or position") {
  YamlNode root = tree();
  apply_override(root, "name=other");
  CHECK(root.find("name")->text == "other");
  apply_override(root, "workload.prompts.1.tokens=30");
  CHECK(node_at(root, {"workload", "prompts", std::size_t{1}, "tokens"}).text == "30");
  CHECK(node_at(root, {"workload", "prompts", std::size_t{0}, "tokens"}).text == "10");
  apply_override(root, "instances.decode.tp=4");
  CHECK(node_at(root, {"instances", std::size_t{0}, "tp"}).text == "4");
  apply_override(root, "instances.\"node.1\".tp=2");
  CHECK(node_at(root, {"instances", std::size_t{1}, "tp"}).text == "2");
  apply_override(root, "serving.blocks=64");
  CHECK(node_at(root, {"serving", "blocks"}).text == "64");
  apply_override(root, "workload.prompts=[{tokens: 5}]");
  CHECK(node_at(root, {"workload", "prompts"}).items.size() == 1);
}

TEST_CASE("--set below a preset's name keeps the name as base") {
  YamlNode root = tree();
  apply_override(root, "instances.decode.nic.rate=25 Gbps");
  CHECK(node_at(root, {"instances", std::size_t{0}, "nic", "base"}).text == "erdma");
  CHECK(node_at(root, {"instances", std::size_t{0}, "nic", "rate"}).text == "25 Gbps");
}

TEST_CASE("--set: the place of a value is its column in the text") {
  YamlNode root = tree();
  apply_override(root, "serving.blocks=64");
  CHECK(node_at(root, {"serving", "blocks"}).place.to_string() == "--set:1:16");
  CHECK(root.entries.back().key.place.to_string() == "--set:1:1");
}

TEST_CASE("--set: errors") {
  CHECK(override_error("name") == "--set:1:5: no `=`; expected a.b.c=value");
  CHECK(override_error("name=") == "--set:1:6: no value; expected a.b.c=value");
  CHECK(override_error("=1") == "--set:1:1: an empty key; expected a.b.c=value");
  CHECK(override_error("a..b=1") == "--set:1:3: an empty key; expected a.b.c=value");
  CHECK(override_error("instances.decoed.tp=1") ==
        "--set:1:11: no item named `decoed`; expected one of decode, node.1 (nearest: `decode`)");
  CHECK(override_error("workload.prompts.2.tokens=1") ==
        "--set:1:18: position 2; expected a position below 2");
  CHECK(override_error("workload.prompts.x.tokens=1") ==
        "--set:1:18: no item named `x`; expected a position, counted from 0");
  CHECK(override_error("a.\"b=1").find("a quote without its end") != std::string::npos);
  CHECK(override_error("name=[1").find("--set:1:") == 0);
}
