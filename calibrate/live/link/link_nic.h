#pragma once
// A link's measurements as the simulator's NIC: what `calibrate link` writes into a hardware file
// and `compare --sim-vs-live` simulates.

#include <optional>
#include <string>

#include "calibrate/live/link/link_role.h"
#include "sim/base/units.h"
#include "sim/net/nic_spec.h"

namespace kvlane::live {

struct LinkConstants {
  double rate_GBps = 0;      // payload, 1 MiB writes, four in flight
  double round_trip_us = 0;  // post to completion, 64 B, one after the other
  // The same with 2 ms of rest before each: roles sleep between a layer's messages, and a message
  // that wakes its reader takes several times as long.
  double rest_round_trip_us = 0;
  double fragment_us = 0;   // what one more piece of 512 B adds to a write beside its bytes
  double operation_us = 0;  // what one more write of 64 B adds, many in flight
  // Reads on the on-demand lane of what the line carries in 20 ms (64 KiB to 16 MiB), median.
  std::int64_t fetch_bytes = 0;
  double fetch_us = 0, fetch_under_push_us = 0;  // alone; with 16 MiB of the proactive lane
  LinkProbe::CpuCost cpu;                        // of writes of 1 MiB, seconds a byte

  // One way; clocks of two hosts may be further apart than this.
  double latency_us() const { return rest_round_trip_us / 2; }
  // Fetches that shared the line with the push would take twice as long.
  bool lane_priority() const { return fetch_under_push_us < 1.5 * fetch_us; }
};
// Bytes of the working set that measuring takes.
inline constexpr std::int64_t kConstantsRoom = std::int64_t{16} << 20U;
LinkConstants measure_constants(LinkProbe& probe);

// Rate, efficiency, message rate, latency and costs of a NIC that takes as long. `line`: the rate
// that the path was shaped to; without, what was measured is the line.
void fill_nic(const LinkConstants& constants, std::optional<Bandwidth> line, NicSpec& nic);

struct NicWords {
  LinkConstants constants;
  std::string yaml;  // an inline NIC of a scenario
};
NicWords measure_nic(LinkProbe& probe, std::optional<Bandwidth> line);

}  // namespace kvlane::live
