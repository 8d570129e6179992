#include "sim/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/report/csv.h"
#include "sim/report/json_writer.h"
#include "sim/report/metric_list.h"
#include "sim/report/number_format.h"

namespace kvlane {
namespace {

const StrategyResult* find(const Result& result, const std::string& name) {
  for (const auto& s : result.strategies) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

void add(Comparison& out, const std::string& strategy, std::string metric, double a, double b) {
  std::optional<double> ratio;
  if (a != 0) {
    if (std::isfinite(b / a)) ratio = b / a;
  } else if (b == 0) {
    ratio = 1;
  }
  out.rows.push_back({strategy, std::move(metric), a, b, ratio, std::nullopt, std::nullopt});
}

void add_strategy(Comparison& out, const StrategyResult& a, const StrategyResult& b) {
  for (const auto& metric : kMetrics) {
    for (const auto& stat : kStats) {
      const bool mean = stat.member == &Distribution::mean;
      add(out, a.name, mean ? metric.name : fmt::format("{}.{}", metric.name, stat.name),
          a.*metric.member.*stat.member, b.*metric.member.*stat.member);
      if (mean && (a.*metric.member).interval && (b.*metric.member).interval) {
        out.rows.back().a_interval = (a.*metric.member).interval;
        out.rows.back().b_interval = (b.*metric.member).interval;
      }
    }
  }
  for (const auto& part : kTtstParts) {
    add(out, a.name, fmt::format("ttst_parts_s.{}", part.name), a.ttst_parts_s.*part.member,
        b.ttst_parts_s.*part.member);
  }
  add(out, a.name, "prefill_s", a.prefill_s, b.prefill_s);
  add(out, a.name, "transfer_s", a.transfer_s, b.transfer_s);
  for (const auto& lane : kLaneBytes) {
    add(out, a.name, fmt::format("bytes.{}", lane.name), static_cast<double>(a.*lane.member),
        static_cast<double>(b.*lane.member));
  }
  if (a.attention_mass && b.attention_mass)
    add(out, a.name, "attention_mass", *a.attention_mass, *b.attention_mass);
  if (a.cost_per_million_tokens && b.cost_per_million_tokens) {
    add(out, a.name, "cost_per_million_tokens", *a.cost_per_million_tokens,
        *b.cost_per_million_tokens);
  }
}

void compare_inputs(Comparison& out, const Result& a, const Result& b) {
  std::map<std::string, std::array<std::string, 2>> hashes;
  for (const auto& input : a.inputs) hashes[input.path][0] = input.sha256;
  for (const auto& input : b.inputs) hashes[input.path][1] = input.sha256;
  for (const auto& [path, sha] : hashes) {
    if (sha[0] == sha[1]) continue;
    if (sha[0].empty()) {
      out.differences.push_back(fmt::format("input {} only in B", path));
    } else if (sha[1].empty()) {
      out.differences.push_back(fmt::format("input {} only in A", path));
    } else {
      out.differences.push_back(fmt::format("input {}: sha256 {} in A, {} in B", path,
                                            sha[0].substr(0, 12), sha[1].substr(0, 12)));
    }
  }
}

struct Shown {
  std::string label, a, b, unit;
};

// "ttst_s.p99" is shown as "ttst p99", in the unit that suits both values.
Shown shown(const CompareRow& row) {
  const std::size_t dot = row.metric.find('.');
  std::string label = row.metric.substr(0, dot);
  const std::array<double, 2> values{row.a, row.b};
  DisplayUnit unit{"", 1};
  if (label == "bytes") {
    unit = byte_unit(values);
  } else if (label.size() > 2 && label.compare(label.size() - 2, 2, "_s") == 0) {
    unit = time_unit(values);
    label.erase(label.size() - 2);
  }
  if (dot != std::string::npos) label = fmt::format("{} {}", label, row.metric.substr(dot + 1));
  std::replace(label.begin(), label.end(), '_', ' ');
  const auto cell = [&](double value, const std::optional<Interval>& interval) {
    std::string text = significant(value * unit.scale);
    if (interval) {
      text += fmt::format(" ({} ... {})", significant(interval->low * unit.scale, 3),
                          significant(interval->high * unit.scale, 3));
    }
    return text;
  };
  return {label, cell(row.a, row.a_interval), cell(row.b, row.b_interval), unit.name};
}

// A terminal shows what decides; the files have every row.
bool on_terminal(const CompareRow& row) {
  return row.metric.find('.') == std::string::npos || row.metric == "ttst_s.p99" ||
         row.metric == "tbt_s.p50" || row.metric == "bytes.total";
}

}  // namespace

Comparison compare_results(const std::string& name_a, const Result& a, const std::string& name_b,
                           const Result& b) {
  Comparison out{name_a, name_b, {}, {}, {}};
  if (a.scenario != b.scenario) {
    out.differences.push_back(fmt::format("scenario: {} in A, {} in B", a.scenario, b.scenario));
  }
  compare_inputs(out, a, b);
  for (const auto& s : a.strategies) {
    if (const StrategyResult* other = find(b, s.name)) {
      add_strategy(out, s, *other);
      if (s.endpoint != other->endpoint) {
        out.warnings.push_back(
            fmt::format("{} is {} in A and {} in B: their answers are not worth "
                        "the same",
                        s.name, s.endpoint, other->endpoint));
      }
    } else {
      out.differences.push_back(fmt::format("strategy {} only in A", s.name));
    }
  }
  for (const auto& s : b.strategies) {
    if (find(a, s.name) == nullptr)
      out.differences.push_back(fmt::format("strategy {} only in B", s.name));
  }
  if (a.first_token != b.first_token) {
    out.warnings.push_back(
        fmt::format("first_token is {} in A and {} in B: the transfer lands on another metric; "
                    "compare second_token_s and jct_s only",
                    a.first_token, b.first_token));
  }
  if (a.seed != b.seed) {
    out.warnings.push_back(
        fmt::format("seed {} in A and {} in B: differences include chance", a.seed, b.seed));
  }
  if (a.weakest_source != b.weakest_source) {
    out.warnings.push_back(fmt::format("the weakest number is {} in A and {} in B",
                                       a.weakest_source, b.weakest_source));
  }
  return out;
}

std::string comparison_to_table(const Comparison& comparison, int width) {
  std::string out =
      wrapped("A: " + comparison.a, width, 2) + wrapped("B: " + comparison.b, width, 2);
  for (const std::string& difference : comparison.differences) {
    out += wrapped("differs: " + difference, width, 2);
  }
  out += '\n';
  TextTable table({"strategy", "metric", "A", "B", "unit", "B/A"});
  table.align_left(1);
  table.align_left(4);
  for (const CompareRow& row : comparison.rows) {
    if (!on_terminal(row)) continue;
    const Shown cells = shown(row);
    table.add_row({row.strategy, cells.label, cells.a, cells.b, cells.unit,
                   row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-"});
  }
  out += table.render(width);
  if (!comparison.warnings.empty()) out += '\n';
  for (const std::string& warning : comparison.warnings) {
    out += wrapped("warning: " + warning, width, 2);
  }
  return out;
}

std::string comparison_to_json(const Comparison& comparison) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "kvlane.compare/1").member("a", comparison.a).member("b", comparison.b);
  json.key("differences").begin_array();
  for (const auto& difference : comparison.differences) json.value(difference);
  json.end_array();
  json.key("warnings").begin_array();
  for (const auto& warning : comparison.warnings) json.value(warning);
  json.end_array();
  json.key("rows").begin_array();
  for (const CompareRow& row : comparison.rows) {
    json.begin_object(JsonWriter::Layout::one_line);
    json.member("strategy", row.strategy).member("metric", row.metric);
    json.member("a", row.a).member("b", row.b).member("ratio", row.ratio);
    if (row.a_interval && row.b_interval) {
      json.member("a_low", row.a_interval->low).member("a_high", row.a_interval->high);
      json.member("b_low", row.b_interval->low).member("b_high", row.b_interval->high);
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

std::string comparison_to_csv(const Comparison& comparison) {
  std::string out = "strategy,metric,a,b,ratio,a_low,a_high,b_low,b_high\n";
  const auto end = [](const std::optional<Interval>& interval, double Interval::*member) {
    return interval ? shortest(*interval.*member) : std::string();
  };
  for (const CompareRow& row : comparison.rows) {
    const std::vector<std::string> fields{row.strategy,
                                          row.metric,
                                          shortest(row.a),
                                          shortest(row.b),
                                          row.ratio ? shortest(*row.ratio) : "",
                                          end(row.a_interval, &Interval::low),
                                          end(row.a_interval, &Interval::high),
                                          end(row.b_interval, &Interval::low),
                                          end(row.b_interval, &Interval::high)};
    out += csv_line(fields);
  }
  return out;
}

}  // namespace kvlane
