#include "sim/cli/link_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibrate/fit/nic_fit.h"
#include "calibrate/fit/short_value.h"
#include "sim/report/csv.h"
#include "sim/report/json_writer.h"
#include "sim/scenario/quantity.h"

namespace kvlane::cli {
namespace {

using live::LatencyUs;
using live::MeasuredRow;

std::string op_name(TransferOp op) { return op == TransferOp::read ? "read" : "write"; }

std::string lane_name(const MeasuredRow& row) {
  static constexpr const char* kNames[] = {"control", "on_demand", "proactive", "speculative"};
  return row.row.load.lanes > 1 ? "in turn" : kNames[index(row.row.load.lane)];
}

struct Quantile {
  const char* name;
  double LatencyUs::*value;
};
constexpr Quantile kQuantiles[] = {{"min", &LatencyUs::min},    {"p50", &LatencyUs::p50},
                                   {"p90", &LatencyUs::p90},    {"p99", &LatencyUs::p99},
                                   {"p99.9", &LatencyUs::p999}, {"max", &LatencyUs::max},
                                   {"mean", &LatencyUs::mean},  {"stdev", &LatencyUs::stdev}};

// Three decimals: nanoseconds of a microsecond, bytes of a kilobyte.
double rounded(double value) { return std::round(value * 1e3) / 1e3; }
double fine(double value) { return std::round(value * 1e6) / 1e6; }

// One row's fields, in order, given to whoever writes them: text, integer, number, flag or
// (where there is none) nothing.
template <class Put>
void put_row(const LinkReport& report, const MeasuredRow& row, Put put) {
  const live::LinkSample& s = row.sample;
  const live::LinkLoad& load = row.row.load;
  put("axis", std::string(to_string(row.row.axis)));
  put("backend", report.transport);
  put("op", op_name(load.op));
  put("lane", lane_name(row));
  put("block_bytes", load.bytes);
  put("fragments", load.fragments);
  put("run_bytes", load.bytes / load.fragments);
  put("queues", std::int64_t{load.queues});
  put("lanes", std::int64_t{load.lanes});
  put("in_flight", std::int64_t{load.depth});
  put("background_bytes", row.row.background_bytes);
  put("warmup_s", load.warm_up_seconds);
  put("iters", s.operations);
  put("bytes", s.operations * load.bytes);
  put("secs", fine(s.seconds));
  put("bw_GBps", fine(s.rate_GBps));
  put("ops_per_s", rounded(s.operations_per_s));
  put("lat_us", s.latency);
  put("visible_us", rounded(s.visible.p50));
  put("visible_from", std::string(to_string(s.visible_from)));
  put("post_us", rounded(s.post_us));
  put("cpu_s_per_GB", rounded(s.cpu_s_per_GB));
  put("errors", s.errors);
  put("retries", std::int64_t{0});  // an operation that failed is an error, never posted again
  put("verified_bytes", row.verified_bytes);
  put("checksum", report.checksum);
  put("mark", report.place.mark);
}

struct JsonPut {
  JsonWriter& json;
  template <class T>
  void operator()(const char* name, const T& value) {
    json.member(name, value);
  }
  void operator()(const char* name, const LatencyUs& latency) {
    json.key(name).begin_object(JsonWriter::Layout::one_line);
    for (const Quantile& q : kQuantiles) json.member(q.name, rounded(latency.*q.value));
    json.end_object();
  }
};

struct CsvPut {
  std::vector<std::string>& names;
  std::vector<std::string>& fields;
  template <class T>
  void operator()(const char* name, const T& value) {
    names.emplace_back(name);
    fields.push_back(fmt::format("{}", value));
  }
  void operator()(const char* name, const LatencyUs& latency) {
    for (const Quantile& q : kQuantiles) {
      (*this)(fmt::format("{}_{}", name, q.name).c_str(), rounded(latency.*q.value));
    }
  }
};

std::string bytes_text(std::int64_t bytes) {
  for (const auto& [unit, name] : {std::pair{1 << 20, "Mi"}, std::pair{1 << 10, "Ki"}}) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
  }
  return fmt::format("{}", bytes);
}

}  // namespace

std::string link_table(const LinkReport& report) {
  std::string text = fmt::format(
      "{} over {}{}{}{}{}, {} processors, kernel {}, load {}; {} queues a lane; working set {} "
      "MiB, "
      "connected in {:.1f} ms; {}\n",
      report.transport, report.place.mark,
      report.place.interface.empty() ? "" : " by " + report.place.interface,
      report.place.mtu_bytes > 0 ? fmt::format(" (MTU {} B)", report.place.mtu_bytes) : "",
      report.place.rdma_device.empty() ? "" : ", device " + report.place.rdma_device,
      report.place.gid.empty() ? "" : ", GID " + report.place.gid, report.place.processors,
      report.place.kernel,
      report.load_average_1min ? fmt::format("{:.2f}", *report.load_average_1min) : "unknown",
      report.queues, report.working_set_bytes >> 20U, 1e3 * report.connect_s,
      report.clock_error_us > 0
          ? fmt::format("clocks aligned within {:.1f} us", report.clock_error_us)
          : "one clock");
  text += fmt::format(
      "{:<11}{:<6}{:>8}{:>7}{:>7}{:>6}{:>7}{:>9} {:>9}{:>10} {:>10}{:>10}{:>11}{:>9}"
      "{:>9}\n",
      "axis", "op", "block_B", "pieces", "queues", "lanes", "flight", "backgr_B", "GB/s", "ops/s",
      "p50_us", "p99_us", "visible_us", "post_us", "cpu_s/GB");
  live::LinkAxis last = live::LinkAxis::size;
  std::int64_t errors = 0, verified = 0;
  bool halved = false;
  for (const MeasuredRow& row : report.sweep.rows) {
    const live::LinkSample& s = row.sample;
    const live::LinkLoad& load = row.row.load;
    if (row.row.axis != last) text += '\n';
    last = row.row.axis;
    const bool half = s.visible_from == live::VisibleFrom::half_round_trip;
    halved = halved || half;
    text += fmt::format(
        "{:<11}{:<6}{:>8}{:>7}{:>7}{:>6}{:>7}{:>9} {:>9.3f}{:>10.0f} {:>10.1f}{:>10.1f}{:>10.1f}{}"
        "{:>9.2f}{:>9.3f}{}\n",
        to_string(row.row.axis), op_name(load.op), bytes_text(load.bytes), load.fragments,
        load.queues, load.lanes, load.depth, bytes_text(row.row.background_bytes), s.rate_GBps,
        s.operations_per_s, s.latency.p50, s.latency.p99, s.visible.p50, half ? '*' : ' ',
        s.post_us, s.cpu_s_per_GB, s.errors > 0 ? fmt::format("  {} errors", s.errors) : "");
    errors += s.errors;
    verified += row.verified_bytes;
  }
  text += "GB = 1e9 bytes of payload; CPU seconds are both ends'; visible: in place at the peer";
  text += halved ? ", * half a round trip (the clocks' error is larger)\n" : "\n";
  if (verified > 0) text += fmt::format("{} bytes verified, all right\n", verified);
  if (errors > 0) text += fmt::format("{} operations failed\n", errors);
  if (report.sweep.left_out > 0) {
    text += fmt::format("{} rows left out: too slow a link for so much in flight\n",
                        report.sweep.left_out);
  }
  return text;
}

std::string link_json(const LinkReport& report) {
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.calibrate_link/1").member("name", report.name);
  json.key("environment").begin_object();
  const auto known = [](const std::string& text) {
    return text.empty() ? std::optional<std::string_view>() : std::optional<std::string_view>(text);
  };
  json.member("version", report.version)
      .member("transport", report.transport)
      .member("mark", report.place.mark)
      .member("kernel", report.place.kernel)
      .member("interface", known(report.place.interface));
  json.key("mtu_bytes");
  report.place.mtu_bytes > 0 ? json.value(report.place.mtu_bytes) : json.null();
  json.member("rdma_device", known(report.place.rdma_device))
      .member("gid", known(report.place.gid))
      .member("processors", report.place.processors)
      .member("load_average_1min", report.load_average_1min)
      .member("working_set_bytes", report.working_set_bytes)
      .member("queues", std::int64_t{report.queues})
      .member("connect_s", fine(report.connect_s))
      .member("clock_error_us", rounded(report.clock_error_us))
      .member("rows_left_out", report.sweep.left_out)
      .end_object();
  json.key("rows").begin_array();
  for (const MeasuredRow& row : report.sweep.rows) {
    json.begin_object();
    put_row(report, row, JsonPut{json});
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

std::string link_csv(const LinkReport& report) {
  std::string text;
  for (const MeasuredRow& row : report.sweep.rows) {
    std::vector<std::string> names, fields;
    put_row(report, row, CsvPut{names, fields});
    if (text.empty()) text = csv_line(names);
    text += csv_line(fields);
  }
  return text;
}

std::vector<Sample> link_samples(const LinkReport& report) {
  std::vector<Sample> samples;
  for (const MeasuredRow& row : report.sweep.rows) {
    const live::LinkLoad& load = row.row.load;
    const live::LinkSample& s = row.sample;
    if (row.row.axis != live::LinkAxis::size || load.op != TransferOp::write || s.operations < 1 ||
        s.errors > 0) {
      continue;
    }
    Sample sample;
    sample.machine = report.name;
    sample.source = kOwnSource;
    sample.licence = "Apache-2.0";
    sample.variant = fmt::format("{} write, {}", report.transport, report.place.mark);
    sample.conditions.repetitions = s.operations;
    sample.conditions.driver = report.place.kernel;
    sample.conditions.load_average_1min = report.load_average_1min.value_or(0);
    if (load.depth == 1) {
      sample.kernel = "nic_latency";
      sample.shape = {load.bytes};
      sample.seconds = s.latency.p50 / 2 * 1e-6;
    } else {
      sample.kernel = "nic_message";
      sample.shape = {load.bytes, 1};
      sample.seconds = 1 / s.operations_per_s;
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string link_nic_file(const LinkReport& report, const live::LinkConstants& c,
                          const TransportLimits& limits, std::optional<Bandwidth> line) {
  NicFile nic;
  nic.kind = "nic";
  nic.spec.name = report.name;
  nic.description = fmt::format("{} between the ends of kvlane calibrate link, {}",
                                report.transport, report.place.mark);
  const auto put = [&](const char* key, const std::string& from) {
    nic.sources[key] = {Source::measured, fmt::format("kvlane calibrate link: {}", from)};
  };
  live::fill_nic(c, line, nic.spec);
  const double share = calibrate::rounded(nic.spec.efficiency, calibrate::ValueUnit::share);
  nic.spec.efficiency = std::min(1.0, share);
  nic.spec.message_rate =
      calibrate::rounded(nic.spec.message_rate, calibrate::ValueUnit::message_rate);
  put("rate", line ? "the line as stated" : "writes of 1 MiB, 4 in flight");
  put("efficiency", line ? "writes of 1 MiB, 4 in flight, of the line" : "the rate is payload");
  put("message_rate", "one more piece of 512 B in a write");
  put("latency", "half a round trip of 64 B after a rest of 2 ms");
  put("per_message", "one more piece of 512 B in a write");
  put("per_doorbell", "one more write of 64 B, 64 in flight");
  put("cpu_a_byte_sent", "what writes of 1 MiB take from a computation on their processors");
  put("cpu_a_byte_received", "what writes of 1 MiB take from a computation on their processors");
  if (report.transport == "rdma") {
    nic.spec.max_send_sge = limits.max_send_sge;
    nic.spec.max_recv_sge = limits.max_recv_sge;
    nic.spec.max_read_sge = limits.max_read_sge;
    for (const char* key : {"max_send_sge", "max_recv_sge", "max_read_sge"}) {
      put(key, "what the device says of itself");
    }
  }
  if (report.place.mtu_bytes > 0) {
    nic.spec.mtu = Bytes(report.place.mtu_bytes);
    put("mtu", "the interface " + report.place.interface);
  }
  nic.spec.gpu_direct = limits.gpu_direct;
  return calibrate::nic_text(nic);
}

}  // namespace kvlane::cli
