#include "calibrate/fit/nic_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/fit/held_out_error.h"
#include "calibrate/fit/solver.h"
#include "sim/report/json_writer.h"

namespace kvlane::calibrate {
namespace {

constexpr std::size_t kLeastSizes = 4;       // twice the constants, in each half
constexpr std::int64_t kSmallMessage = 256;  // bytes; beyond, latency holds the wire's time

struct Curve {
  std::vector<const Sample*> fitted, held;
};

Curve curve_of(const std::vector<Sample>& samples) {
  std::vector<const Sample*> all;
  std::set<std::string> variants;
  for (const Sample& sample : samples) {
    if (sample.kernel != "nic_message" || !sample.set_aside.empty()) continue;
    if (dimension(sample, "queue_pairs") != 1) continue;  // the message rate is one queue pair's
    all.push_back(&sample);
    variants.insert(sample.source + ", " + sample.variant);
  }
  if (variants.size() > 1) {
    throw FitError(fmt::format("nic_message: samples of several variants: {}; expected one curve",
                               fmt::join(variants, "; ")));
  }
  std::stable_sort(all.begin(), all.end(), [](const Sample* a, const Sample* b) {
    return dimension(*a, "bytes") < dimension(*b, "bytes");
  });
  Curve curve;
  for (std::size_t i = 0; i < all.size(); ++i) {
    (i % 2 == 0 ? curve.fitted : curve.held).push_back(all[i]);
  }
  if (curve.held.size() < kLeastSizes) {
    throw FitError(fmt::format(
        "nic_message: {} sizes to fit and {} held out; expected at least {} each for 2 constants",
        curve.fitted.size(), curve.held.size(), kLeastSizes));
  }
  return curve;
}

double message_time(double fixed, double rate, const Sample& sample) {
  return std::max(fixed, static_cast<double>(dimension(sample, "bytes")) / rate);
}

// Median of one-way times of small messages; 0 where there are none.
double latency_of(const std::vector<Sample>& samples) {
  std::vector<double> times;
  for (const Sample& sample : samples) {
    if (sample.kernel == "nic_latency" && sample.set_aside.empty() &&
        dimension(sample, "bytes") <= kSmallMessage) {
      times.push_back(sample.seconds);
    }
  }
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

}  // namespace

NicFit fit_nic(const std::vector<Sample>& samples, const NicFile& base, const std::string& name) {
  const double line = base.spec.rate.bytes_per_sec();
  if (line <= 0) throw FitError("the base NIC has no line rate");
  const Curve curve = curve_of(samples);
  const Sample& largest = *curve.fitted.back();
  const double rate = static_cast<double>(dimension(largest, "bytes")) / largest.seconds;
  const Solution solution =
      solve({{"fixed", 1e-10, 1e-2, {curve.fitted.front()->seconds}},
             {"rate", rate / 100, rate * 100, {rate}}},
            curve.fitted.size(), [&](const std::vector<double>& at, std::vector<double>& out) {
              for (std::size_t i = 0; i < out.size(); ++i) {
                const Sample& sample = *curve.fitted[i];
                out[i] = std::log(message_time(at[0], at[1], sample) / sample.seconds);
              }
            });
  if (!solution.converged) {
    throw FitError(fmt::format("nic_message: the fit does not converge: {}", solution.status));
  }
  NicFit fit;
  fit.nic = base;
  fit.nic.spec.name = name;
  fit.fitted = curve.fitted.size();
  // In the file's units and digits, so that the error is that of the file.
  NicSpec& nic = fit.nic.spec;
  nic.message_rate = rounded(1 / solution.values[0], ValueUnit::message_rate);
  nic.efficiency = rounded(solution.values[1] / line, ValueUnit::share);
  if (nic.efficiency > 1) {
    fit.warnings.push_back(fmt::format("{} of the line rate: the base's is too low; 100 % is kept",
                                       value_text(nic.efficiency, ValueUnit::share)));
    nic.efficiency = 1;
  }
  std::vector<double> errors;
  for (const Sample* sample : curve.held) {
    errors.push_back(std::abs(
        message_time(1 / nic.message_rate, line * nic.efficiency, *sample) / sample->seconds - 1));
  }
  fit.held_out = summary_of(std::move(errors));
  nic.error = rounded(std::min(fit.held_out.mean, 2.0), ValueUnit::share);
  const bool own = largest.source.rfind("measured", 0) == 0;
  const Source trust = own ? Source::measured : Source::table;
  const std::string text = fmt::format(
      "fit to {}, {}, {}: {} sizes; median {:.1f} % off on {} held out", largest.source,
      largest.machine, largest.variant, fit.fitted, 100 * fit.held_out.median, fit.held_out.count);
  for (const char* key : {"message_rate", "efficiency", "error"}) {
    fit.nic.sources[key] = {trust, text};
  }
  if (const double latency = latency_of(samples); latency > 0) {
    nic.latency = Duration(std::llround(rounded(latency, ValueUnit::time) * 1e12));
    fit.nic.sources["latency"] = {
        trust, fmt::format("{}, {}: median of messages up to {} B", largest.source, largest.machine,
                           kSmallMessage)};
  }
  return fit;
}

std::string nic_table(const NicFit& fit) {
  const NicSpec& nic = fit.nic.spec;
  std::string text = fmt::format(
      "{}: {} sizes fitted, {} held out: median {:.1f} %, mean {:.1f} %, p90 {:.1f} %\n"
      "  message_rate {}, efficiency {}\n",
      nic.name, fit.fitted, fit.held_out.count, 100 * fit.held_out.median, 100 * fit.held_out.mean,
      100 * fit.held_out.p90, value_text(nic.message_rate, ValueUnit::message_rate),
      value_text(nic.efficiency, ValueUnit::share));
  for (const std::string& warning : fit.warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string nic_json(const NicFit& fit) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "kvlane.calibrate_fit_nic/1")
      .member("name", fit.nic.spec.name)
      .member("fitted", static_cast<std::int64_t>(fit.fitted))
      .member("held_out", static_cast<std::int64_t>(fit.held_out.count))
      .member("mape", fit.held_out.mean)
      .member("median", fit.held_out.median)
      .member("p90", fit.held_out.p90)
      .member("message_rate", fit.nic.spec.message_rate)
      .member("efficiency", fit.nic.spec.efficiency);
  json.key("warnings").begin_array(JsonWriter::Layout::one_line);
  for (const std::string& warning : fit.warnings) json.value(warning);
  json.end_array().end_object();
  return json.finish();
}

}  // namespace kvlane::calibrate
