#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/input_error.h"
#include "sim/report/metric_list.h"
#include "sim/report/result_json.h"
#include "sim/scenario/json_text.h"

namespace kvlane {
namespace {

using Json = nlohmann::json;

constexpr double kMaxSeconds = 1e7;  // the clock ends after 106 days
constexpr double kMaxRatio = 1e15;   // of two times, and cost
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 62;

// A value with the way to it, so that an error names the field: "strategies[2].metrics.ttst_s.p50".
class Field {
 public:
  Field(const std::string& file, const Json& json) : Field(file, "", json) {}

  Field operator[](const char* name) const {
    if (!json_.is_object()) fail("expected an object");
    const auto it = json_.find(name);
    if (it == json_.end())
      throw InputError({file_}, fmt::format("no {}", inside(name)),
                       "expected every key of kvlane.result/1");
    return {file_, inside(name), *it};
  }
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw InputError({file_}, fmt::format("{} is {}", path_.empty() ? "the file" : path_, found),
                     expected);
  }
  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }
  bool is_null() const { return json_.is_null(); }

  std::string text() const {
    if (!json_.is_string()) fail("expected a string");
    auto text = json_.get<std::string>();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (is_control(text, i)) refuse("a string with a control character", "expected one line");
    }
    return text;
  }
  double number(double low, double high) const {
    if (!json_.is_number()) fail("expected a number");
    const auto value = json_.get<double>();
    if (!(value >= low && value <= high))
      refuse(json_.dump(), fmt::format("expected {:g} to {:g}", low, high));
    return value;
  }
  double share() const { return number(0, 1 + 1e-9); }
  double seconds() const { return number(0, kMaxSeconds); }
  double difference() const { return number(-kMaxSeconds, kMaxSeconds); }
  std::int64_t count() const {
    if (!json_.is_number_unsigned() || json_.get<std::uint64_t>() > kMaxCount)
      fail("expected a whole number below 2^62 that is not negative");
    return json_.get<std::int64_t>();
  }
  std::uint64_t natural() const {
    if (!json_.is_number_unsigned()) fail("expected an integer that is not negative");
    return json_.get<std::uint64_t>();
  }
  template <class Visit>
  void each(Visit visit) const {
    if (!json_.is_array()) fail("expected an array");
    for (std::size_t i = 0; i < json_.size(); ++i)
      visit(Field(file_, fmt::format("{}[{}]", path_, i), json_[i]));
  }
  template <class Visit>
  void each_member(Visit visit) const {
    if (!json_.is_object()) fail("expected an object");
    for (const auto& [name, member] : json_.items())
      visit(name, Field(file_, inside(name.c_str()), member));
  }

 private:
  Field(const std::string& file, std::string path, const Json& json)
      : file_(file), path_(std::move(path)), json_(json) {}
  std::string inside(const char* name) const {
    return path_.empty() ? std::string(name) : path_ + "." + name;
  }
  [[noreturn]] void fail(const char* expected) const {
    refuse(json_.is_number() ? json_.dump() : json_.type_name(), expected);
  }

  const std::string& file_;
  std::string path_;
  const Json& json_;
};

void read_metric(const Field& in, bool may_be_negative, Distribution& to) {
  for (const auto& stat : kStats)
    to.*stat.member = may_be_negative ? in[stat.name].difference() : in[stat.name].seconds();
  if (in.has("spread")) to.spread = in["spread"].seconds();
  if (in.has("low") || in.has("high")) {
    const auto time = [&](const char* end) {
      return may_be_negative ? in[end].difference() : in[end].seconds();
    };
    to.interval = Interval{time("low"), time("high")};
    if (to.interval->low > to.interval->high)
      in.refuse(fmt::format("low {}, high {}", to.interval->low, to.interval->high),
                "expected low <= high");
  }
  // A mean of equal values may be off by its rounding.
  const double rounding = 1e-9 * std::max(std::abs(to.max), std::abs(to.mean));
  if (to.p50 > to.p90 || to.p90 > to.p99 || to.p99 > to.max || to.mean > to.max + rounding)
    in.refuse(fmt::format("mean {}, p50 {}, p90 {}, p99 {}, max {}", to.mean, to.p50, to.p90,
                          to.p99, to.max),
              "expected p50 <= p90 <= p99 <= max and mean <= max");
}

StrategyResult read_strategy(const Field& in) {
  StrategyResult s;
  s.name = in["name"].text();
  s.policy = in["policy"].text();
  s.endpoint = in["endpoint"].text();
  if (in.has("note")) s.note = in["note"].text();
  for (const auto& metric : kMetrics) {
    // A request that decodes faster than the ideal of its batch has a stall below zero.
    read_metric(in["metrics"][metric.name], metric.member == &StrategyResult::stall_s,
                s.*metric.member);
  }
  for (const auto& part : kTtstParts)
    s.ttst_parts_s.*part.member = in["ttst_parts_s"][part.name].difference();
  for (const auto& part : kTtftParts)
    s.ttft_parts_s.*part.member = in["ttft_parts_s"][part.name].difference();
  in["ctl_s"].each([&](const Field& time) { s.ctl_s.push_back(time.seconds()); });
  s.prefill_s = in["prefill_s"].seconds();
  s.transfer_s = in["transfer_s"].seconds();
  for (const auto& lane : kLaneBytes) s.*lane.member = in["bytes"][lane.name].count();
  in["on_demand_ratio"].each(
      [&](const Field& ratio) { s.on_demand_ratio.push_back(ratio.share()); });
  if (!in["local_after_iteration"].is_null())
    s.local_after_iteration = in["local_after_iteration"].count();
  if (!in["attention_mass"].is_null()) s.attention_mass = in["attention_mass"].share();
  in["utilisation"].each_member([&](const std::string& port, const Field& share) {
    s.utilisation.emplace(port, share.share());
  });
  if (!in["cost_per_million_tokens"].is_null())
    s.cost_per_million_tokens = in["cost_per_million_tokens"].number(0, kMaxRatio);
  if (!in["speedup_vs_full"].is_null()) {
    Speedup speedup;
    for (const auto& entry : kSpeedups)
      speedup.*entry.member = in["speedup_vs_full"][entry.name].number(0, kMaxRatio);
    s.speedup_vs_full = speedup;
  }
  return s;
}

// Absent in results of versions before them.
void read_provenance(const Field& in, Result& result) {
  if (in.has("weakest_constant")) result.weakest_constant = in["weakest_constant"].text();
  if (in.has("outside_domain")) {
    in["outside_domain"].each([&](const Field& row) {
      result.outside_domain.push_back({row["gpu"].text(), row["kernel"].text(),
                                       row["dimension"].text(), row["value"].number(0, kMaxRatio),
                                       row["low"].number(0, kMaxRatio),
                                       row["high"].number(0, kMaxRatio)});
    });
  }
  if (in.has("from_table")) {
    in["from_table"].each([&](const Field& row) {
      result.from_table.push_back({row["gpu"].text(), row["kernel"].text(), row["inside"].count(),
                                   row["outside"].count(), row["first_outside"].text()});
    });
  }
}

Uncertainty read_uncertainty(const Field& in) {
  Uncertainty uncertainty;
  uncertainty.draws = in["draws"].count();
  in["ratios"].each([&](const Field& row) {
    uncertainty.ratios.push_back({row["of"].text(), row["against"].text(), row["metric"].text(),
                                  row["ratio"].number(0, kMaxRatio),
                                  row["low"].number(0, kMaxRatio),
                                  row["high"].number(0, kMaxRatio)});
    if (uncertainty.ratios.back().low > uncertainty.ratios.back().high)
      row.refuse("an interval from high to low", "expected low <= high");
  });
  return uncertainty;
}

Json parse(const std::string& file, std::string_view text) {
  try {
    return parse_json(text);
  } catch (const JsonFault& fault) {
    if (fault.kind == JsonFault::Kind::range) {
      throw InputError({file}, fault.message, "expected a kvlane.result/1");
    }
    throw InputError(place_of_byte(text, file, fault.byte), "text that is not JSON",
                     "expected a kvlane.result/1 as `kvlane run --format json` writes it");
  }
}

}  // namespace

Result result_from_json(const std::string& file, std::string_view text) {
  const Json json = parse(file, text);
  const Field in(file, json);
  if (!in.has("schema"))
    throw InputError({file}, "JSON without a schema key",
                     "expected \"schema\": \"kvlane.result/1\"");
  if (const std::string schema = in["schema"].text(); schema != "kvlane.result/1")
    throw InputError({file}, fmt::format("schema {}", schema), "expected kvlane.result/1");
  Result result;
  result.scenario = in["scenario"].text();
  in["inputs"].each([&](const Field& input) {
    result.inputs.push_back({input["path"].text(), input["sha256"].text()});
  });
  result.seed = in["seed"].natural();
  result.run_hash = in["run_hash"].text();
  result.weakest_source = in["weakest_source"].text();
  read_provenance(in, result);
  result.first_token = in["first_token"].text();
  in["warnings"].each([&](const Field& warning) { result.warnings.push_back(warning.text()); });
  result.verdict = in["verdict"].text();
  std::set<std::string> names;
  in["strategies"].each([&](const Field& strategy) {
    result.strategies.push_back(read_strategy(strategy));
    if (!names.insert(result.strategies.back().name).second)
      strategy["name"].refuse(fmt::format("`{}` a second time", result.strategies.back().name),
                              "expected every strategy once");
  });
  if (in.has("uncertainty")) {
    result.uncertainty = read_uncertainty(in["uncertainty"]);
    in["uncertainty"]["without_error"].each(
        [&](const Field& name) { result.without_error.push_back(name.text()); });
  }
  if (result.strategies.empty()) in["strategies"].refuse("empty", "expected a strategy at least");
  return result;
}

}  // namespace kvlane
