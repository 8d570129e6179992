#include "sim/report/result_csv.h"

#include <fmt/format.h>

#include <array>

#include "sim/report/csv.h"
#include "sim/report/metric_list.h"
#include "sim/report/number_format.h"
#include "sim/report/result_json.h"

namespace kvlane {
namespace {

// Steps at which the on-demand ratio is shown: the first, an early one and a settled one.
constexpr std::array<std::size_t, 3> kSteps{1, 5, 20};

std::string maybe(const std::optional<double>& value) { return value ? shortest(*value) : ""; }

}  // namespace

std::vector<std::string> strategy_columns() {
  std::vector<std::string> columns{"scenario",       "seed",           "run_hash",
                                   "weakest_source", "outside_domain", "first_token",
                                   "strategy",       "policy",         "endpoint"};
  for (const auto& metric : kMetrics) {
    // ttst_s -> ttst_mean_s: the unit stays last.
    const std::string stem(
        std::string_view(metric.name).substr(0, std::string(metric.name).size() - 2));
    for (const auto& stat : kStats) columns.push_back(fmt::format("{}_{}_s", stem, stat.name));
    columns.push_back(stem + "_spread_s");
  }
  for (const auto& part : kTtstParts) columns.push_back(fmt::format("ttst_{}_s", part.name));
  for (const auto& part : kTtftParts) columns.push_back(fmt::format("ttft_{}_s", part.name));
  columns.insert(columns.end(), {"prefill_s", "transfer_s"});
  for (const auto& lane : kLaneBytes) columns.push_back(fmt::format("{}_bytes", lane.name));
  for (const std::size_t step : kSteps) columns.push_back(fmt::format("on_demand_ratio_{}", step));
  columns.insert(columns.end(), {"local_after_iteration", "attention_mass", "busiest_port",
                                 "busiest_port_share", "cost_per_million_tokens_usd"});
  for (const auto& speedup : kSpeedups) columns.push_back(fmt::format("{}_vs_full", speedup.name));
  return columns;
}

std::vector<std::string> strategy_fields(const Result& result, const StrategyResult& s) {
  std::vector<std::string> fields{result.scenario,
                                  fmt::format("{}", result.seed),
                                  result.run_hash,
                                  result.weakest_source,
                                  fmt::format("{}", result.outside_domain.size()),
                                  result.first_token,
                                  s.name,
                                  s.policy,
                                  s.endpoint};
  for (const auto& metric : kMetrics) {
    const Distribution& d = s.*metric.member;
    for (const auto& stat : kStats) fields.push_back(shortest(d.*stat.member));
    fields.push_back(maybe(d.spread));
  }
  for (const auto& part : kTtstParts) fields.push_back(shortest(s.ttst_parts_s.*part.member));
  for (const auto& part : kTtftParts) fields.push_back(shortest(s.ttft_parts_s.*part.member));
  fields.push_back(shortest(s.prefill_s));
  fields.push_back(shortest(s.transfer_s));
  for (const auto& lane : kLaneBytes) fields.push_back(fmt::format("{}", s.*lane.member));
  for (const std::size_t step : kSteps) {
    fields.push_back(step <= s.on_demand_ratio.size() ? shortest(s.on_demand_ratio[step - 1]) : "");
  }
  fields.push_back(s.local_after_iteration ? fmt::format("{}", *s.local_after_iteration) : "");
  fields.push_back(maybe(s.attention_mass));
  const auto* busiest = static_cast<const std::pair<const std::string, double>*>(nullptr);
  for (const auto& entry : s.utilisation) {  // by name, so that a tie has one winner
    if (busiest == nullptr || entry.second > busiest->second) busiest = &entry;
  }
  fields.push_back(busiest != nullptr ? busiest->first : "");
  fields.push_back(busiest != nullptr ? shortest(busiest->second) : "");
  fields.push_back(maybe(s.cost_per_million_tokens));
  for (const auto& speedup : kSpeedups) {
    fields.push_back(s.speedup_vs_full ? shortest((*s.speedup_vs_full).*speedup.member) : "");
  }
  return fields;
}

std::string result_to_csv(const Result& result) {
  check_result(result);
  std::string out = csv_line(strategy_columns());
  for (const StrategyResult& s : result.strategies) out += csv_line(strategy_fields(result, s));
  return out;
}

std::string requests_to_csv(const Result& result) {
  const std::vector<std::string> columns{"scenario",       "strategy",      "seed",       "request",
                                         "prompt_tokens",  "output_tokens", "ttft_s",     "ttst_s",
                                         "second_token_s", "stall_s",       "tbt_mean_s", "jct_s"};
  std::string out = csv_line(columns);
  for (const StrategyResult& s : result.strategies) {
    for (const RequestRow& row : s.requests) {
      const std::vector<std::string> fields{result.scenario,
                                            s.name,
                                            fmt::format("{}", row.seed),
                                            fmt::format("{}", row.request),
                                            fmt::format("{}", row.prompt_tokens),
                                            fmt::format("{}", row.output_tokens),
                                            shortest(row.ttft_s),
                                            shortest(row.ttst_s),
                                            shortest(row.second_token_s),
                                            shortest(row.stall_s),
                                            shortest(row.tbt_mean_s),
                                            shortest(row.jct_s)};
      out += csv_line(fields);
    }
  }
  return out;
}

}  // namespace kvlane
