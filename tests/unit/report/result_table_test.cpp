#include "sim/report/result_table.h"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/unit/report/sample_result.h"

using namespace kvlane;
using test::sample_result;

namespace {

int widest_line(const std::string& text) {
  int widest = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) widest = std::max(widest, display_width(line));
  return widest;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("result table: says what it must") {
  const std::string text = result_to_table(sample_result());
  CHECK(has(text, "first token: prefill"));
  CHECK(has(text, "run_hash 0123456789abcdef"));
  CHECK(has(text, "verdict: run full here; below 10 Gbps hack"));
  CHECK(has(text, "warning: profile assumed from SmolLM2"));
  CHECK(has(text, "hack: KV on the GPU"));
  CHECK(has(text, "3.00x"));       // ttst of hack against full
  CHECK(has(text, "compressed"));  // its endpoint
  CHECK(has(text, "62.50"));       // tbt 0.0625 s, shown in ms
  CHECK(has(text, "88.9"));        // wire 4.0 of 4.5 s of full's TTST
  CHECK(has(text, "34.0"));        // remote at step 1
  CHECK(has(text, "87.5"));        // decode port
  CHECK(has(text, "1 more below 0.1 %"));
  CHECK(!has(text, "TTFT by cause"));
}

TEST_CASE("result table: where decode emits the first token, TTFT is taken apart too") {
  Result result = sample_result();
  result.first_token = "decode_recompute";
  CHECK(has(result_to_table(result), "TTFT by cause"));
}

TEST_CASE("result table: twelve strategies with long names fit 100 columns") {
  Result result = sample_result();
  for (int i = 0; i < 10; ++i) {
    auto s = test::sample_strategy("smartgen-own-queries-" + std::to_string(i), 2.5);
    s.note =
        "a note that is long enough to need more than one line of a terminal, so that it must "
        "be broken at a blank and not where the terminal breaks it";
    result.strategies.push_back(s);
  }
  CHECK(widest_line(result_to_table(result)) <= 100);
}

TEST_CASE("result table: members of a group that carry the same share a row") {
  Result result = sample_result();
  for (auto& s : result.strategies) {
    s.utilisation = {{"prefill-0 gpu 0 H2D", 0.25}, {"prefill-0 gpu 1 H2D", 0.25},
                     {"prefill-1 gpu 0 H2D", 0.25}, {"prefill-1 gpu 1 H2D", 0.125},
                     {"switch->prefill-0", 0.5},    {"switch->prefill-1", 0.5}};
  }
  const std::string text = result_to_table(result);
  CHECK(has(text, "prefill-* gpu * H2D  25.0  25.0\n"));
  CHECK(has(text, "prefill-1 gpu 1 H2D  12.5  12.5\n"));
  CHECK(has(text, "switch->prefill-*    50.0  50.0\n"));
  CHECK(!has(text, "prefill-0"));
}

TEST_CASE("result table: weakest constant, domain and tables") {
  const std::string text = result_to_table(test::uncertain_result(), 1000);
  // Both dimensions of gemm are one kernel.
  CHECK(has(text,
            "weakest number: datasheet (L20 host_step) · outside the fits' domain: L20 "
            "prefill_attention, L20 gemm\n"));
  CHECK(
      has(text,
          "L20 gemm: 12 shapes from the table, 3 outside its grid by formula (first: m=3, n=4096, "
          "k=4096)\n"));
  CHECK(has(text, "L20 collective: 1 shape from the table\n"));
  CHECK(!has(result_to_table(sample_result()), "domain"));
  CHECK(!has(result_to_table(sample_result()), "draws"));
}

TEST_CASE("result table: intervals, and ratios as speed-ups against full") {
  const std::string text = result_to_table(test::uncertain_result());
  CHECK(has(text, "90 % of 200 draws"));
  CHECK(has(text, "3.38 ... 6.75"));          // ttst 4.5 s of full: 0.75 and 1.5 times
  CHECK(has(text, "2.50x (2.00 ... 4.00)"));  // hack takes 0.4 (0.25 to 0.5) of full
  CHECK(has(text, "1.25x (0.80 ... 2.00)"));
  CHECK(widest_line(text) <= 100);

  Result alone = test::uncertain_result();
  alone.strategies.pop_back();
  alone.uncertainty->ratios.clear();
  CHECK(!has(result_to_table(alone), "with the same errors"));
}
