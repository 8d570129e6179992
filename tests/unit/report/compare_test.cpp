#include "sim/report/compare.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/report/sample_result.h"

using namespace kvlane;
using test::sample_result;

namespace {

const CompareRow* find(const Comparison& c, const std::string& strategy,
                       const std::string& metric) {
  for (const auto& row : c.rows) {
    if (row.strategy == strategy && row.metric == metric) return &row;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("compare: each metric of the strategies in both, B over A") {
  const Result a = sample_result();
  Result b = sample_result();
  b.strategies[1] = test::sample_strategy("hack", 2.5);  // ttst 1.5 -> 3.0
  b.strategies[0].name = "full2";
  const Comparison c = compare_results("a.json", a, "b.json", b);
  REQUIRE(find(c, "hack", "ttst_s") != nullptr);
  CHECK(find(c, "hack", "ttst_s")->a == 1.5);
  CHECK(find(c, "hack", "ttst_s")->b == 3.0);
  CHECK(find(c, "hack", "ttst_s")->ratio == 2.0);
  CHECK(find(c, "hack", "bytes.proactive")->ratio == 1.0);
  CHECK(find(c, "hack", "ttst_parts_s.fetch")->ratio == 1.0);  // 0 and 0
  CHECK(find(c, "full", "ttst_s") == nullptr);
  CHECK(c.differences ==
        std::vector<std::string>{"strategy full only in A", "strategy full2 only in B"});
  CHECK(c.warnings.empty());
}

TEST_CASE("compare: says which inputs differ and when numbers do not compare") {
  const Result a = sample_result();
  Result b = sample_result();
  b.inputs[0].sha256 = "cd34";
  b.inputs.push_back({"scenarios/models/m.yaml", "ee"});
  b.first_token = "decode_seeded";
  b.seed = 8;
  const Comparison c = compare_results("a", a, "b", b);
  CHECK(c.differences ==
        std::vector<std::string>{"input scenarios/models/m.yaml only in B",
                                 "input scenarios/sample.yaml: sha256 ab12 in A, cd34 in B"});
  REQUIRE(c.warnings.size() == 2);
  CHECK(c.warnings[0].find("first_token is prefill in A and decode_seeded in B") == 0);
  CHECK(c.warnings[1].find("seed 7 in A and 8 in B") == 0);
}

TEST_CASE("compare: a ratio to nothing is null") {
  const Result a = sample_result();
  Result b = sample_result();
  b.strategies[0].ttst_parts_s.fetch = 0.5;
  const Comparison c = compare_results("a", a, "b", b);
  CHECK(!find(c, "full", "ttst_parts_s.fetch")->ratio);
  const auto json = nlohmann::json::parse(comparison_to_json(c));
  CHECK(json["schema"] == "kvlane.compare/1");
  int nulls = 0;
  for (const auto& row : json["rows"]) nulls += row["ratio"].is_null() ? 1 : 0;
  CHECK(nulls == 1);
}

TEST_CASE("compare: intervals where both have them") {
  const Result a = test::uncertain_result();
  const Result plain = test::sample_result();
  const Comparison both = compare_results("a", a, "b", a);
  const CompareRow& ttft = both.rows[0];
  REQUIRE(ttft.metric == "ttft_s");
  CHECK(ttft.a_interval->low == 1.125);
  CHECK(ttft.b_interval->high == 2.25);
  CHECK(!both.rows[1].a_interval);  // the median has none
  CHECK(comparison_to_table(both).find("1.500 (1.12 ... 2.25)") != std::string::npos);
  CHECK(comparison_to_json(both).find("\"b_high\": 2.25") != std::string::npos);
  CHECK(comparison_to_csv(both).find("full,ttft_s,1.5,1.5,1,1.125,2.25,1.125,2.25\n") !=
        std::string::npos);

  const Comparison one = compare_results("a", a, "b", plain);
  CHECK(!one.rows[0].a_interval);
  CHECK(comparison_to_json(one).find("a_low") == std::string::npos);
  CHECK(comparison_to_csv(one).find("full,ttft_s,1.5,1.5,1,,,,\n") != std::string::npos);
}
