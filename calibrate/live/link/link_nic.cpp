#include "calibrate/live/link/link_nic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvlane::live {
namespace {

constexpr std::int64_t kPiece = 512;  // bytes of a row of an 8B model
constexpr std::int64_t kLeastFetch = 64 << 10, kPush = kConstantsRoom;
constexpr double kRest = 2e-3;  // between two operations of which the second finds both ends asleep
constexpr double kMostCpu = 1e-6;       // what a NIC file may say
constexpr double kLeastPieceUs = 0.02;  // pieces that cost nothing: 50 million a second

Duration in_ns(double ns) { return std::chrono::nanoseconds(std::llround(ns)); }

}  // namespace

LinkConstants measure_constants(LinkProbe& probe) {
  LinkConstants c;
  LinkLoad bulk;
  bulk.bytes = 1 << 20;
  bulk.depth = 4;
  bulk.seconds = 1.0;
  bulk.warm_up_seconds = 0.3;
  c.rate_GBps = probe.measure(bulk).rate_GBps;

  LinkLoad small;
  small.bytes = 64;
  small.lane = Lane::on_demand;
  small.seconds = 0.4;
  small.least_count = 200;
  c.round_trip_us = probe.measure(small).latency.p50;
  small.rest_seconds = kRest;
  small.least_count = 100;
  c.rest_round_trip_us = probe.measure(small).latency.p50;
  small.rest_seconds = 0;
  small.least_count = 200;
  small.depth = 64;
  const LinkSample many = probe.measure(small);
  c.operation_us = many.operations_per_s > 0 ? 1e6 / many.operations_per_s : 0;

  // The same bytes in one piece and in many.
  LinkLoad whole;
  whole.bytes = kPiece * 512;
  whole.depth = 4;
  whole.seconds = 0.4;
  LinkLoad pieces = whole;
  pieces.fragments = 512;
  const LinkSample w = probe.measure(whole);
  const LinkSample p = probe.measure(pieces);
  if (w.operations_per_s > 0 && p.operations_per_s > 0) {
    c.fragment_us = std::max(0.0, (1e6 / p.operations_per_s - 1e6 / w.operations_per_s) /
                                      static_cast<double>(pieces.fragments - 1));
  }

  const double in_20_ms = c.rate_GBps * 1e9 * 0.02;
  c.fetch_bytes = std::clamp(static_cast<std::int64_t>(in_20_ms), kLeastFetch, kPush) / 4096 * 4096;
  LinkLoad fetch;
  fetch.op = TransferOp::read;
  fetch.lane = Lane::on_demand;
  fetch.bytes = c.fetch_bytes;
  fetch.seconds = 0.4;
  probe.set_line(Bandwidth::gbyte_per_sec(c.rate_GBps));
  c.fetch_us = probe.measure(fetch).latency.p50;
  probe.background(kPush, Lane::proactive);
  c.fetch_under_push_us = probe.measure(fetch).latency.p50;
  probe.background(0);
  c.cpu = probe.cpu_cost(bulk);
  return c;
}

void fill_nic(const LinkConstants& c, std::optional<Bandwidth> line, NicSpec& nic) {
  const auto measured = Bandwidth::gbyte_per_sec(c.rate_GBps);
  nic.rate = line.value_or(measured);
  nic.efficiency = std::min(1.0, measured.bytes_per_sec() / nic.rate.bytes_per_sec());
  // One work request a piece; what pieces cost on the CPU holds the poster up.
  nic.message_rate = 1e6 / std::max(kLeastPieceUs, c.fragment_us);
  nic.latency = in_ns(std::max(1.0, c.latency_us() * 1e3));
  nic.per_message = in_ns(c.fragment_us * 1e3);
  nic.per_doorbell = in_ns(std::min(c.operation_us, c.round_trip_us / 4) * 1e3);
  nic.lane_priority = c.lane_priority();
  nic.cpu_a_byte_sent = seconds_to_duration(std::min(c.cpu.sent, kMostCpu));
  nic.cpu_a_byte_received = seconds_to_duration(std::min(c.cpu.received, kMostCpu));
}

NicWords measure_nic(LinkProbe& probe, std::optional<Bandwidth> line) {
  NicWords nic;
  nic.constants = measure_constants(probe);
  NicSpec spec;
  fill_nic(nic.constants, line, spec);
  const auto ns = [](Duration d) { return d.count() / 1000; };
  nic.yaml = fmt::format(
      "{{base: tcp, rate: {} bps, efficiency: {:.2f} %, message_rate: {:.0f} msg/s, latency: {} "
      "ns, per_message: {} ns, per_doorbell: {} ns, cpu_a_byte_sent: {} ns, cpu_a_byte_received: "
      "{} "
      "ns, lane_priority: {}}}",
      spec.rate.bits_per_sec(), 100 * spec.efficiency, spec.message_rate, ns(spec.latency),
      ns(spec.per_message), ns(spec.per_doorbell),
      static_cast<double>(spec.cpu_a_byte_sent.count()) / 1000,
      static_cast<double>(spec.cpu_a_byte_received.count()) / 1000, spec.lane_priority);
  return nic;
}

}  // namespace kvlane::live
