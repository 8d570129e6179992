#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/input_error.h"
#include "sim/report/metric_list.h"
#include "sim/report/result_json.h"

namespace kvlane {
namespace {

using Json = nlohmann::json;

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
  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }
  bool is_null() const { return json_.is_null(); }

  std::string text() const {
    if (!json_.is_string()) fail("expected a string");
    return json_.get<std::string>();
  }
  double number() const {
    if (!json_.is_number()) fail("expected a number");
    return json_.get<double>();
  }
  std::int64_t integer() const {
    if (!json_.is_number_integer()) fail("expected an integer");
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
    throw InputError({file_},
                     fmt::format("{} is {}", path_.empty() ? "the file" : path_, json_.type_name()),
                     expected);
  }

  const std::string& file_;
  std::string path_;
  const Json& json_;
};

std::vector<double> numbers(const Field& field) {
  std::vector<double> out;
  field.each([&](const Field& number) { out.push_back(number.number()); });
  return out;
}

std::optional<double> maybe_number(const Field& field) {
  if (field.is_null()) return std::nullopt;
  return field.number();
}

StrategyResult read_strategy(const Field& in) {
  StrategyResult s;
  s.name = in["name"].text();
  s.policy = in["policy"].text();
  s.endpoint = in["endpoint"].text();
  if (in.has("note")) s.note = in["note"].text();
  for (const auto& metric : kMetrics) {
    const Field from = in["metrics"][metric.name];
    Distribution& to = s.*metric.member;
    for (const auto& stat : kStats) to.*stat.member = from[stat.name].number();
    if (from.has("spread")) to.spread = from["spread"].number();
  }
  for (const auto& part : kTtstParts)
    s.ttst_parts_s.*part.member = in["ttst_parts_s"][part.name].number();
  for (const auto& part : kTtftParts)
    s.ttft_parts_s.*part.member = in["ttft_parts_s"][part.name].number();
  s.ctl_s = numbers(in["ctl_s"]);
  s.prefill_s = in["prefill_s"].number();
  s.transfer_s = in["transfer_s"].number();
  for (const auto& lane : kLaneBytes) s.*lane.member = in["bytes"][lane.name].integer();
  s.on_demand_ratio = numbers(in["on_demand_ratio"]);
  if (!in["local_after_iteration"].is_null())
    s.local_after_iteration = in["local_after_iteration"].integer();
  s.attention_mass = maybe_number(in["attention_mass"]);
  in["utilisation"].each_member([&](const std::string& port, const Field& share) {
    s.utilisation.emplace(port, share.number());
  });
  s.cost_per_million_tokens = maybe_number(in["cost_per_million_tokens"]);
  if (!in["speedup_vs_full"].is_null()) {
    Speedup speedup;
    for (const auto& entry : kSpeedups)
      speedup.*entry.member = in["speedup_vs_full"][entry.name].number();
    s.speedup_vs_full = speedup;
  }
  return s;
}

// nlohmann counts bytes; people count lines.
SourcePlace place_of(const std::string& file, std::string_view text, std::size_t byte) {
  SourcePlace place{file, 1, 1};
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.column = 1;
    } else {
      ++place.column;
    }
  }
  return place;
}

Json parse(const std::string& file, std::string_view text) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    throw InputError(place_of(file, text, error.byte), "text that is not JSON",
                     "expected a kvlane.result/1 as `kvlane run --format json` writes it");
  } catch (const Json::exception& error) {  // a number out of range
    throw InputError({file}, error.what(), "expected a kvlane.result/1");
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
  result.first_token = in["first_token"].text();
  in["warnings"].each([&](const Field& warning) { result.warnings.push_back(warning.text()); });
  result.verdict = in["verdict"].text();
  in["strategies"].each(
      [&](const Field& strategy) { result.strategies.push_back(read_strategy(strategy)); });
  return result;
}

}  // namespace kvlane
