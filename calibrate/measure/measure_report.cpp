#include "calibrate/measure/measure_report.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "calibrate/fit/ceilings.h"
#include "calibrate/measure/kernel_rates.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"

namespace kvlane::calibrate {
namespace {

std::string rate(double value, double ceiling) {
  if (value <= 0) return "-";
  const std::string number = fmt::format("{:.3g}", value / 1e9);
  return ceiling > 0 ? fmt::format("{} ({:.0f} %)", number, 100 * value / ceiling) : number;
}

}  // namespace

std::string measure_table(const SessionResult& result, const std::string& out, int columns) {
  const std::vector<Sample>& samples = result.samples;
  const Ceilings best = ceilings_of(samples);
  std::string text = fmt::format("{}: {} samples of {}\n", out, samples.size(),
                                 samples.empty() ? "nothing" : samples.front().machine);
  text += fmt::format("ceilings: read {} GB/s, copy {} GB/s read and written, GEMM {} GFLOP/s\n\n",
                      rate(best.read, 0), rate(best.copy, 0), rate(best.flops, 0));
  TextTable table({"kernel", "shapes", "left out", "GFLOP/s", "GB/s", "spread"});
  for (const KernelRates& row : kernel_rates(samples)) {
    const double memory = memory_ceiling(row, best);
    table.add_row({row.name(), fmt::format("{}", row.measured), fmt::format("{}", row.extrapolated),
                   rate(row.flops, best.flops), rate(row.bytes, memory),
                   fmt::format("{:.1f} %", 100 * row.spread)});
  }
  text += table.render(columns);
  for (const auto& [kernel, why] : result.refused) {
    text += wrapped("warning: no " + kernel + ": " + why, columns, 2);
  }
  if (result.too_large > 0) {
    text += fmt::format("{} shapes do not fit the memory taken for operands\n", result.too_large);
  }
  if (!samples.empty() && !samples.front().conditions.problem.empty()) {
    text += wrapped("warning: " + samples.front().conditions.problem, columns, 2);
  }
  return text;
}

std::string measure_json(const SessionResult& result) {
  const Ceilings best = ceilings_of(result.samples);
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.calibrate_measure/1");
  if (!result.samples.empty()) {
    const Sample& first = result.samples.front();
    json.member("machine", first.machine)
        .member("load_average_1min", first.conditions.load_average_1min)
        .member("problem", first.conditions.problem);
  }
  json.key("ceilings").begin_object(JsonWriter::Layout::one_line);
  json.member("read_bytes_per_s", best.read)
      .member("copy_bytes_per_s", best.copy)
      .member("gemm_flop_per_s", best.flops)
      .end_object();
  json.member("too_large", static_cast<std::int64_t>(result.too_large));
  json.key("rows").begin_array();
  for (const KernelRates& row : kernel_rates(result.samples)) {
    json.begin_object(JsonWriter::Layout::one_line)
        .member("kernel", row.kernel)
        .member("variant", row.variant)
        .member("measured", row.measured)
        .member("extrapolated", row.extrapolated)
        .member("flop_per_s", row.flops)
        .member("bytes_per_s", row.bytes)
        .member("spread", row.spread)
        .end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

}  // namespace kvlane::calibrate
