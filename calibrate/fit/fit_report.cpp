#include "calibrate/fit/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"

namespace kvlane::calibrate {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

std::string fit_table(const MachineFit& fit, int columns) {
  TextTable table({"kernel", "fitted", "held out", "MAPE", "median", "p90"});
  for (const KernelReport& kernel : fit.kernels) {
    table.add_row({kernel.kernel, fmt::format("{}", kernel.fitted),
                   fmt::format("{}", kernel.held_out.count), percent(kernel.held_out.mean),
                   percent(kernel.held_out.median), percent(kernel.held_out.p90)});
  }
  std::string text = fmt::format("{}: error on shapes held out\n", fit.gpu.name);
  text += table.render(columns);
  for (const KernelReport& kernel : fit.kernels) {
    std::string line = fmt::format("{} ({}):", kernel.kernel, kernel.variant);
    for (const FittedConstant& constant : kernel.constants) {
      line += fmt::format(" {} {},", constant.key, value_text(constant.value, constant.unit));
    }
    line.pop_back();
    text += wrapped(line, columns, 2);
  }
  for (const KernelReport& kernel : fit.kernels) {
    for (const std::string& warning : kernel.warnings) {
      text += wrapped(fmt::format("warning: {}: {}", kernel.kernel, warning), columns, 2);
    }
  }
  for (const std::string& left : fit.left_out) {
    text += wrapped(fmt::format("not fitted: {}", left), columns, 2);
  }
  return text;
}

std::string fit_json(const MachineFit& fit) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "kvlane.calibrate_fit/1").member("machine", fit.gpu.name);
  json.key("rows").begin_array();
  for (const KernelReport& kernel : fit.kernels) {
    json.begin_object();
    json.member("kernel", kernel.kernel)
        .member("source", kernel.source)
        .member("variant", kernel.variant)
        .member("available", static_cast<std::int64_t>(kernel.available))
        .member("fitted", static_cast<std::int64_t>(kernel.fitted))
        .member("held_out", static_cast<std::int64_t>(kernel.held_out.count))
        .member("mape", kernel.held_out.mean)
        .member("median", kernel.held_out.median)
        .member("p90", kernel.held_out.p90);
    json.key("constants").begin_object(JsonWriter::Layout::one_line);
    for (const FittedConstant& constant : kernel.constants) {
      json.member(constant.key, constant.value);
    }
    json.end_object();
    json.key("warnings").begin_array(JsonWriter::Layout::one_line);
    for (const std::string& warning : kernel.warnings) json.value(warning);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("left_out").begin_array(JsonWriter::Layout::one_line);
  for (const std::string& left : fit.left_out) json.value(left);
  json.end_array();
  json.end_object();
  return json.finish();
}

}  // namespace kvlane::calibrate
