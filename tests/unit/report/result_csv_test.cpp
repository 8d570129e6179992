#include "sim/report/result_csv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "sim/report/csv.h"
#include "tests/unit/report/sample_result.h"

using namespace kvlane;
using test::sample_result;

namespace {

std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) rows.push_back(csv_fields(line));
  return rows;
}

std::string cell(const std::vector<std::vector<std::string>>& rows, std::size_t row,
                 const std::string& column) {
  const auto it = std::find(rows[0].begin(), rows[0].end(), column);
  REQUIRE(it != rows[0].end());
  return rows[row][static_cast<std::size_t>(it - rows[0].begin())];
}

}  // namespace

TEST_CASE("result CSV: one row a strategy, a field under each column") {
  const auto rows = rows_of(result_to_csv(sample_result()));
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].size() == rows[0].size());
  CHECK(rows[2].size() == rows[0].size());
  CHECK(cell(rows, 1, "strategy") == "full");
  CHECK(cell(rows, 2, "ttst_mean_s") == "1.5");
  CHECK(cell(rows, 2, "ttst_wire_s") == "1");
  CHECK(cell(rows, 2, "second_token_p99_s") == "3");
  CHECK(cell(rows, 1, "on_demand_bytes") == "20000");
  CHECK(cell(rows, 1, "on_demand_ratio_1") == "0.34");
  CHECK(cell(rows, 1, "on_demand_ratio_5") == "0.025");
  CHECK(cell(rows, 1, "on_demand_ratio_20").empty());  // the sample has five iterations
  CHECK(cell(rows, 1, "cost_per_million_tokens_usd").empty());
  CHECK(cell(rows, 2, "cost_per_million_tokens_usd") == "12.5");
  CHECK(cell(rows, 1, "busiest_port") == "decode rx");
  CHECK(cell(rows, 2, "ttst_vs_full") == "3");
}

TEST_CASE("result CSV: column names are unique") {
  auto columns = strategy_columns();
  std::sort(columns.begin(), columns.end());
  CHECK(std::adjacent_find(columns.begin(), columns.end()) == columns.end());
}

TEST_CASE("requests CSV: one row a request and strategy") {
  const auto rows = rows_of(requests_to_csv(sample_result()));
  REQUIRE(rows.size() == 3);
  CHECK(cell(rows, 2, "strategy") == "hack");
  CHECK(cell(rows, 2, "prompt_tokens") == "10000");
  CHECK(cell(rows, 2, "stall_s") == "1.25");
  CHECK(cell(rows, 2, "jct_s") == "7");
}

TEST_CASE("result CSV: how many sizes lie outside the fits") {
  const auto columns = strategy_columns();
  const auto at = static_cast<std::size_t>(
      std::find(columns.begin(), columns.end(), "outside_domain") - columns.begin());
  REQUIRE(at < columns.size());
  const Result outside = test::uncertain_result();
  CHECK(strategy_fields(outside, outside.strategies[1])[at] == "3");
  const Result inside = test::sample_result();
  CHECK(strategy_fields(inside, inside.strategies[1])[at] == "0");
}
