#include "sim/report/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/report/metric_list.h"
#include "sim/report/number_format.h"
#include "sim/report/result_json.h"

namespace kvlane {
namespace {

constexpr const char* kNone = "-";
// A port below this share in every strategy only says that it is not the bottleneck.
constexpr double kIdleShare = 0.001;

using Strategies = std::vector<StrategyResult>;

// "second_token_s" is shown as "2nd token".
std::string short_name(const std::string& metric) {
  return metric == "second_token_s" ? "2nd token" : metric.substr(0, metric.size() - 2);
}

// A column of times: the unit stands in the header, chosen over the whole column.
struct TimeColumn {
  const char* title;
  Distribution StrategyResult::*metric;
  double Distribution::*stat;
};

std::string latency(const Strategies& strategies, int width) {
  const std::vector<TimeColumn> columns{
      {"ttft", &StrategyResult::ttft_s, &Distribution::mean},
      {"ttst", &StrategyResult::ttst_s, &Distribution::mean},
      {"ttst p99", &StrategyResult::ttst_s, &Distribution::p99},
      {"2nd token", &StrategyResult::second_token_s, &Distribution::mean},
      {"stall", &StrategyResult::stall_s, &Distribution::mean},
      {"tbt", &StrategyResult::tbt_s, &Distribution::mean},
      {"tbt p50", &StrategyResult::tbt_s, &Distribution::p50},
      {"jct", &StrategyResult::jct_s, &Distribution::mean},
  };
  std::vector<std::string> header{"strategy"};
  std::vector<DisplayUnit> units;
  for (const TimeColumn& column : columns) {
    std::vector<double> values;
    for (const auto& s : strategies) values.push_back(s.*column.metric.*column.stat);
    units.push_back(time_unit(values));
    header.push_back(fmt::format("{} {}", column.title, units.back().name));
  }
  TextTable table(header);
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    for (std::size_t c = 0; c < columns.size(); ++c) {
      cells.push_back(significant(s.*columns[c].metric.*columns[c].stat * units[c].scale));
    }
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

std::string against_full(const Strategies& strategies, int width) {
  TextTable table({"strategy", "ttst", "2nd token", "tbt", "jct", "endpoint", "attention mass",
                   "USD/M tokens"});
  table.align_left(5);
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    for (const auto& speedup : kSpeedups) {
      cells.push_back(
          s.speedup_vs_full ? fmt::format("{:.2f}x", (*s.speedup_vs_full).*speedup.member) : kNone);
    }
    cells.push_back(s.endpoint);
    cells.push_back(s.attention_mass ? fmt::format("{:.3f}", *s.attention_mass) : kNone);
    cells.push_back(s.cost_per_million_tokens ? fmt::format("{:.2f}", *s.cost_per_million_tokens)
                                              : kNone);
    table.add_row(std::move(cells));
  }
  std::string out = table.render(width);
  for (const auto& s : strategies) {
    if (!s.note.empty()) out += wrapped(fmt::format("{}: {}", s.name, s.note), width, 2);
  }
  return out;
}

template <class Entries, class Parts>
std::string shares(const Strategies& strategies, const Entries& entries,
                   Parts StrategyResult::*parts, Distribution StrategyResult::*whole, int width) {
  std::vector<std::string> header{"strategy"};
  for (const auto& entry : entries) {
    std::string title = entry.name;
    std::replace(title.begin(), title.end(), '_', ' ');
    header.push_back(title + " %");
  }
  TextTable table(header);
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    const double mean = (s.*whole).mean;
    for (const auto& entry : entries) {
      cells.push_back(mean > 0 ? percent((s.*parts).*entry.member / mean) : kNone);
    }
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

// From the index messages to the whole cache there are six orders of magnitude: a unit a cell.
std::string lanes(const Strategies& strategies, int width) {
  std::vector<std::string> header{"strategy"};
  for (const auto& lane : kLaneBytes) {
    std::string title = lane.name;
    std::replace(title.begin(), title.end(), '_', '-');
    header.push_back(title);
  }
  TextTable table(header);
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    for (const auto& lane : kLaneBytes) cells.push_back(bytes_text(s.*lane.member));
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

std::string remote_rows(const Strategies& strategies, int width) {
  TextTable table({"strategy", "step 1 %", "step 5 %", "step 20 %", "all local after step"});
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    for (const std::size_t step : {1U, 5U, 20U}) {
      cells.push_back(step <= s.on_demand_ratio.size() ? percent(s.on_demand_ratio[step - 1])
                                                       : kNone);
    }
    cells.push_back(s.local_after_iteration ? fmt::format("{}", *s.local_after_iteration) : kNone);
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

// "prefill-0 gpu 1 H2D" is one of "prefill-* gpu * H2D".
std::string family_of(const std::string& port) {
  std::string family;
  for (std::size_t i = 0; i < port.size(); ++i) {
    const bool counts = i > 0 && (port[i - 1] == '-' || port[i - 1] == ' ');
    std::size_t end = i;
    while (end < port.size() && port[end] >= '0' && port[end] <= '9') ++end;
    const bool whole = end == port.size() || port[end] == ' ' || port[end] == '-';
    if (counts && end > i && whole) {
      family += '*';
      i = end - 1;
    } else {
      family += port[i];
    }
  }
  return family;
}

std::string utilisation(const Strategies& strategies, int width) {
  std::vector<std::string> header{"port, %"};
  std::map<std::string, double> largest;
  for (const auto& s : strategies) {
    header.push_back(s.name);
    for (const auto& [port, share] : s.utilisation) largest[port] = std::max(largest[port], share);
  }
  // Members of a group that carry the same share one row.
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  int idle = 0;
  for (const auto& [port, share] : largest) {
    if (share < kIdleShare) {
      ++idle;
      continue;
    }
    std::vector<std::string> cells;
    for (const auto& s : strategies) {
      const auto it = s.utilisation.find(port);
      cells.push_back(it == s.utilisation.end() ? kNone : percent(it->second));
    }
    const std::string family = family_of(port);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
      return family_of(row.first) == family && row.second == cells;
    });
    if (same == rows.end()) {
      rows.emplace_back(port, std::move(cells));
    } else {
      same->first = family;
    }
  }
  TextTable table(header);
  for (auto& [port, cells] : rows) {
    cells.insert(cells.begin(), port);
    table.add_row(std::move(cells));
  }
  std::string out = table.render(width);
  if (idle > 0) out += fmt::format("({} more below 0.1 % in every strategy)\n", idle);
  return out;
}

std::string interval_cell(const Distribution& d, double scale) {
  if (!d.interval) return kNone;
  return fmt::format("{} ... {}", significant(d.interval->low * scale, 3),
                     significant(d.interval->high * scale, 3));
}

std::string intervals(const Strategies& strategies, int width) {
  std::vector<std::string> header{"strategy"};
  std::vector<DisplayUnit> units;
  for (const auto& metric : kMetrics) {
    std::vector<double> values;
    for (const auto& s : strategies) values.push_back((s.*metric.member).mean);
    units.push_back(time_unit(values));
    header.push_back(fmt::format("{} {}", short_name(metric.name), units.back().name));
  }
  TextTable table(header);
  for (const auto& s : strategies) {
    std::vector<std::string> cells{s.name};
    for (std::size_t m = 0; m < kMetrics.size(); ++m)
      cells.push_back(interval_cell(s.*kMetrics[m].member, units[m].scale));
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

// Each strategy against `base`, the other way round than the rows of ratios: above 1 is faster.
std::string paired_intervals(const Result& result, const std::string& base, int width) {
  std::vector<std::string> header{"strategy"};
  std::vector<std::string> metrics;
  for (const RatioInterval& row : result.uncertainty->ratios) {
    if (std::find(metrics.begin(), metrics.end(), row.metric) == metrics.end()) {
      metrics.push_back(row.metric);
      header.push_back(short_name(row.metric));
    }
  }
  TextTable table(header);
  for (const auto& s : result.strategies) {
    if (s.name == base) continue;
    std::vector<std::string> cells{s.name};
    for (const std::string& metric : metrics) {
      cells.emplace_back(kNone);
      for (const RatioInterval& row : result.uncertainty->ratios) {
        if (row.metric != metric || row.of != s.name || row.against != base || row.low <= 0)
          continue;
        cells.back() =
            fmt::format("{:.2f}x ({:.2f} ... {:.2f})", 1 / row.ratio, 1 / row.high, 1 / row.low);
      }
    }
    table.add_row(std::move(cells));
  }
  return table.render(width);
}

std::string uncertainty(const Result& result, int width) {
  std::string out = fmt::format("\nMean latency, 90 % of {} draws of the models' errors\n{}",
                                result.uncertainty->draws, intervals(result.strategies, width));
  if (result.strategies.size() < 2) return out;
  const bool full = std::any_of(result.strategies.begin(), result.strategies.end(),
                                [](const auto& s) { return s.name == "full"; });
  const std::string base = full ? "full" : result.strategies[0].name;
  return out + fmt::format("\nAgainst {} with the same errors (above 1x: faster)\n", base) +
         paired_intervals(result, base, width);
}

std::string first_line(const Result& result) {
  std::string line =
      fmt::format("{} · first token: {} · seed {} · weakest number: {}", result.scenario,
                  result.first_token, result.seed, result.weakest_source);
  if (!result.weakest_constant.empty()) line += fmt::format(" ({})", result.weakest_constant);
  std::string kernels;
  std::string last;
  for (const OutsideDomain& row : result.outside_domain) {
    const std::string kernel = row.gpu + ' ' + row.kernel;
    if (kernel != last) kernels += (kernels.empty() ? "" : ", ") + kernel;
    last = kernel;
  }
  return kernels.empty() ? line : line + " · outside the fits' domain: " + kernels;
}

// What the numbers were measured on; the ideals beside them are simulated.
std::string live_lines(const LiveFacts& live, int width) {
  std::string out;
  for (const LivePeer& peer : live.peers) {
    out += wrapped(
        fmt::format(
            "live: {} by {}, compute {}, clocks within {:.1f} us (round trip "
            "{:.1f} us){}",
            peer.address, peer.transport, live.compute, peer.clock_error_s * 1e6,
            peer.round_trip_s * 1e6,
            live.verified_bytes > 0 ? fmt::format(", {} bytes verified", live.verified_bytes) : ""),
        width, 2);
  }
  return out;
}

std::string from_tables(const std::vector<TableUse>& rows, int width) {
  std::string out;
  for (const TableUse& row : rows) {
    std::string text = fmt::format("{} {}: {} {} from the table", row.gpu, row.kernel, row.inside,
                                   row.inside == 1 ? "shape" : "shapes");
    if (row.outside > 0)
      text += fmt::format(", {} outside its grid by formula (first: {})", row.outside,
                          row.first_outside);
    out += wrapped(text, width, 2);
  }
  return out;
}

}  // namespace

std::string result_to_table(const Result& result, int width) {
  check_result(result);
  const Strategies& strategies = result.strategies;
  std::string out = wrapped(first_line(result), width, 2);
  if (result.live) out += live_lines(*result.live, width);
  out += "\nLatency, mean over requests where nothing else is said\n" + latency(strategies, width);
  out += "\nAgainst full (above 1x: faster), and at what price\n" + against_full(strategies, width);
  if (result.uncertainty) out += uncertainty(result, width);
  out += "\nTTST by cause\n" + shares(strategies, kTtstParts, &StrategyResult::ttst_parts_s,
                                      &StrategyResult::ttst_s, width);
  // Where decode emits the first token the transfer lands on TTFT, and its causes are the news.
  if (result.first_token != "prefill") {
    out += "\nTTFT by cause\n" + shares(strategies, kTtftParts, &StrategyResult::ttft_parts_s,
                                        &StrategyResult::ttft_s, width);
  }
  out += "\nBytes sent, by lane\n" + lanes(strategies, width);
  const bool any_remote = std::any_of(strategies.begin(), strategies.end(), [](const auto& s) {
    return !s.on_demand_ratio.empty() || s.local_after_iteration;
  });
  if (any_remote) out += "\nSelected rows that are still remote\n" + remote_rows(strategies, width);
  out += "\nUtilisation\n" + utilisation(strategies, width) + '\n';
  out += from_tables(result.from_table, width);
  for (const std::string& warning : result.warnings) {
    out += wrapped("warning: " + warning, width, 2);
  }
  if (!result.verdict.empty()) out += wrapped("verdict: " + result.verdict, width, 2);
  out += fmt::format("run_hash {}\n", result.run_hash);
  return out;
}

}  // namespace kvlane
