#include "tests/device_check/device_summary.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "calibrate/fit/ceilings.h"
#include "calibrate/measure/kernel_rates.h"
#include "calibrate/measure/memory_grid.h"

namespace kvlane::calibrate {
namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// In 1e9, and its share of what the machine reaches at most.
std::string rate(double value, double ceiling) {
  if (value <= 0) return "-";
  const std::string number = formatted("%.3g", value / 1e9);
  return ceiling > 0 ? number + formatted(" (%.0f %%)", 100 * value / ceiling) : number;
}

using Row = std::array<std::string, 6>;

Row row_of(const KernelRates& rates, const Ceilings& best) {
  return {rates.name(),
          std::to_string(rates.measured),
          std::to_string(rates.extrapolated),
          rate(rates.flops, best.flops),
          rate(rates.bytes, memory_ceiling(rates, best)),
          rates.measured > 0 ? formatted("%.1f %%", 100 * rates.spread) : "-"};
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      text += (i == 0 ? row[i] + space : "  " + space + row[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string device_summary(const SessionResult& result, std::size_t planned) {
  if (result.samples.empty()) return "nothing was measured\n";
  const Sample& first = result.samples.front();
  const Ceilings best = ceilings_of(result.samples);
  std::string text = std::to_string(result.samples.size()) + " samples of " + first.machine + ", " +
                     std::to_string(planned) + " shapes planned\n";
  text += "driver: " + first.conditions.driver + "; clocks: " + first.conditions.clock_state + '\n';
  text += "ceilings: read " + rate(best.read, 0) + " GB/s, copy " + rate(best.copy, 0) +
          " GB/s read and written, GEMM " + rate(best.flops, 0) + " GFLOP/s\n";
  for (const auto& [kernel, why] : result.refused) {
    text += "warning: no " + kernel + ": " + why + '\n';
  }
  if (result.too_large > 0) {
    text += std::to_string(result.too_large) + " shapes do not fit the memory, or have no kernel\n";
  }
  if (result.stopped) text += "stopped before the end: the last shapes are missing\n";
  if (!first.conditions.problem.empty()) text += "warning: " + first.conditions.problem + '\n';
  std::vector<Row> rows = {{"kernel", "shapes", "left out", "GFLOP/s", "GB/s", "spread"}};
  for (const KernelRates& rates : kernel_rates(result.samples)) rows.push_back(row_of(rates, best));
  return text + '\n' + table(rows) +
         "\nThe best of each kernel, and its share of the ceilings; copies between host and "
         "device: "
         "bytes one way.\n";
}

}  // namespace kvlane::calibrate
