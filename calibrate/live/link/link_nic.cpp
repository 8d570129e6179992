#include "calibrate/live/link/link_nic.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvlane::live {
namespace {

constexpr std::int64_t kPiece = 512;  // bytes of a row of an 8B model

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
  const LinkSample alone = probe.measure(small);
  c.latency_us = alone.visible.p50;
  c.round_trip_us = alone.latency.p50;
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
  return c;
}

NicWords measure_nic(LinkProbe& probe, std::optional<Bandwidth> line) {
  NicWords nic;
  nic.constants = measure_constants(probe);
  const LinkConstants& c = nic.constants;
  const auto measured = Bandwidth::gbyte_per_sec(c.rate_GBps);
  const Bandwidth rate = line.value_or(measured);
  const double efficiency = std::min(1.0, measured.bytes_per_sec() / rate.bytes_per_sec());
  // One work request a piece; what pieces cost on the CPU holds the poster up.
  nic.yaml = fmt::format(
      "{{base: tcp, rate: {} bps, efficiency: {:.2f} %, message_rate: {:.0f} msg/s, latency: "
      "{:.0f} "
      "ns, per_message: {:.0f} ns, per_doorbell: {:.0f} ns, lane_priority: true}}",
      rate.bits_per_sec(), 100 * efficiency, 1e6 / std::max(0.02, c.fragment_us),
      std::max(1.0, c.latency_us * 1e3), c.fragment_us * 1e3,
      std::min(c.operation_us, c.latency_us / 2) * 1e3);
  return nic;
}

}  // namespace kvlane::live
