#include "sim/report/result_json.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/report/json_writer.h"
#include "sim/report/metric_list.h"

namespace kvlane {
namespace {

using Layout = JsonWriter::Layout;

// Means are sums of doubles in another order than their parts': equal to 1e-9, not to the bit.
bool nearly_equal(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

void check_share(const StrategyResult& s, const char* what, double share) {
  KVLANE_CHECK(share >= 0 && share <= 1 + 1e-9, "strategy '{}': {} is {}", s.name, what, share);
}

void check_strategy(const StrategyResult& s) {
  double ttst = 0;
  for (const auto& part : kTtstParts) ttst += s.ttst_parts_s.*part.member;
  KVLANE_CHECK(nearly_equal(ttst, s.ttst_s.mean),
               "strategy '{}': the parts of TTST add up to {} s, its mean is {} s", s.name, ttst,
               s.ttst_s.mean);
  double ttft = 0;
  for (const auto& part : kTtftParts) ttft += s.ttft_parts_s.*part.member;
  KVLANE_CHECK(nearly_equal(ttft, s.ttft_s.mean),
               "strategy '{}': the parts of TTFT add up to {} s, its mean is {} s", s.name, ttft,
               s.ttft_s.mean);
  std::int64_t bytes = 0;
  for (const auto& lane : kLaneBytes) {
    KVLANE_CHECK(s.*lane.member >= 0, "strategy '{}': {} bytes in {}", s.name, s.*lane.member,
                 lane.name);
    if (lane.member != &StrategyResult::bytes_total) bytes += s.*lane.member;
  }
  KVLANE_CHECK(bytes == s.bytes_total, "strategy '{}': lanes carry {} bytes, the total is {}",
               s.name, bytes, s.bytes_total);
  for (const double ratio : s.on_demand_ratio) check_share(s, "on_demand_ratio", ratio);
  for (const auto& [port, share] : s.utilisation) check_share(s, port.c_str(), share);
  if (s.attention_mass) check_share(s, "attention_mass", *s.attention_mass);
}

void write_metrics(JsonWriter& json, const StrategyResult& s) {
  json.key("metrics").begin_object();
  for (const auto& metric : kMetrics) {
    const Distribution& d = s.*metric.member;
    json.key(metric.name).begin_object(Layout::one_line);
    for (const auto& stat : kStats) json.member(stat.name, d.*stat.member);
    if (d.spread) json.member("spread", *d.spread);
    if (d.interval) json.member("low", d.interval->low).member("high", d.interval->high);
    json.end_object();
  }
  json.end_object();
}

void write_numbers(JsonWriter& json, const char* name, const std::vector<double>& numbers) {
  json.key(name).begin_array(Layout::one_line);
  for (const double number : numbers) json.value(number);
  json.end_array();
}

void write_strategy(JsonWriter& json, const StrategyResult& s) {
  json.begin_object();
  json.member("name", s.name).member("policy", s.policy).member("endpoint", s.endpoint);
  json.member("note", s.note);
  write_metrics(json, s);
  json.key("ttst_parts_s").begin_object(Layout::one_line);
  for (const auto& part : kTtstParts) json.member(part.name, s.ttst_parts_s.*part.member);
  json.end_object();
  json.key("ttft_parts_s").begin_object(Layout::one_line);
  for (const auto& part : kTtftParts) json.member(part.name, s.ttft_parts_s.*part.member);
  json.end_object();
  write_numbers(json, "ctl_s", s.ctl_s);
  json.member("prefill_s", s.prefill_s).member("transfer_s", s.transfer_s);
  json.key("bytes").begin_object(Layout::one_line);
  for (const auto& lane : kLaneBytes) json.member(lane.name, s.*lane.member);
  json.end_object();
  write_numbers(json, "on_demand_ratio", s.on_demand_ratio);
  json.member("local_after_iteration", s.local_after_iteration);
  json.member("attention_mass", s.attention_mass);
  json.key("utilisation").begin_object();
  for (const auto& [port, share] : s.utilisation) json.member(port, share);
  json.end_object();
  json.member("cost_per_million_tokens", s.cost_per_million_tokens);
  json.key("speedup_vs_full");
  if (s.speedup_vs_full) {
    json.begin_object(Layout::one_line);
    for (const auto& speedup : kSpeedups)
      json.member(speedup.name, (*s.speedup_vs_full).*speedup.member);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
}

void write_provenance(JsonWriter& json, const Result& result) {
  json.key("outside_domain").begin_array();
  for (const OutsideDomain& row : result.outside_domain) {
    json.begin_object(Layout::one_line);
    json.member("gpu", row.gpu).member("kernel", row.kernel).member("dimension", row.dimension);
    json.member("value", row.value).member("low", row.low).member("high", row.high);
    json.end_object();
  }
  json.end_array();
  json.key("from_table").begin_array();
  for (const TableUse& row : result.from_table) {
    json.begin_object(Layout::one_line);
    json.member("gpu", row.gpu).member("kernel", row.kernel);
    json.member("inside", row.inside).member("outside", row.outside);
    json.member("first_outside", row.first_outside);
    json.end_object();
  }
  json.end_array();
}

void write_live(JsonWriter& json, const LiveFacts& live) {
  json.key("live").begin_object();
  json.member("compute", live.compute).member("verified_bytes", live.verified_bytes);
  json.key("peers").begin_array();
  for (const LivePeer& peer : live.peers) {
    json.begin_object(Layout::one_line);
    json.member("address", peer.address).member("transport", peer.transport);
    json.member("clock_error_s", peer.clock_error_s).member("round_trip_s", peer.round_trip_s);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_uncertainty(JsonWriter& json, const Result& result) {
  const Uncertainty& uncertainty = *result.uncertainty;
  json.key("uncertainty").begin_object();
  json.member("draws", uncertainty.draws);
  json.key("without_error").begin_array(Layout::one_line);
  for (const std::string& name : result.without_error) json.value(name);
  json.end_array();
  json.key("ratios").begin_array();
  for (const RatioInterval& row : uncertainty.ratios) {
    json.begin_object(Layout::one_line);
    json.member("of", row.of).member("against", row.against).member("metric", row.metric);
    json.member("ratio", row.ratio).member("low", row.low).member("high", row.high);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

void check_result(const Result& result) {
  for (const StrategyResult& s : result.strategies) check_strategy(s);
}

std::string result_to_json(const Result& result) {
  check_result(result);
  JsonWriter json;
  json.begin_object();
  json.member("schema", "kvlane.result/1").member("scenario", result.scenario);
  json.key("inputs").begin_array();
  for (const InputFile& input : result.inputs) {
    json.begin_object(Layout::one_line);
    json.member("path", input.path).member("sha256", input.sha256);
    json.end_object();
  }
  json.end_array();
  json.member("seed", result.seed).member("run_hash", result.run_hash);
  json.member("weakest_source", result.weakest_source);
  json.member("weakest_constant", result.weakest_constant);
  write_provenance(json, result);
  json.member("first_token", result.first_token);
  json.key("warnings").begin_array();
  for (const std::string& warning : result.warnings) json.value(warning);
  json.end_array();
  json.member("verdict", result.verdict);
  json.key("strategies").begin_array();
  for (const StrategyResult& s : result.strategies) write_strategy(json, s);
  json.end_array();
  if (result.uncertainty) write_uncertainty(json, result);
  if (result.live) write_live(json, *result.live);
  json.end_object();
  return json.finish();
}

}  // namespace kvlane
