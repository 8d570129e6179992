#pragma once
// What `kvlane calibrate link` prints and writes: rows as table, JSON, CSV; samples for `calibrate
// fit`; a NIC file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/live/link/link_nic.h"
#include "calibrate/live/link/link_place.h"
#include "calibrate/live/link/link_sweep.h"
#include "sim/gpu/sample.h"

namespace kvlane::cli {

struct LinkReport {
  std::string name;       // of the NIC
  std::string version;    // of this program
  std::string transport;  // that was taken
  live::LinkPlace place;
  std::int64_t working_set_bytes = 0;
  std::uint32_t queues = 1;  // of the connection
  double connect_s = 0, clock_error_us = 0;
  std::optional<double> load_average_1min;  // at the start
  bool checksum = false;
  live::SweepResult sweep;
};

std::string link_table(const LinkReport& report);
std::string link_json(const LinkReport& report);
std::string link_csv(const LinkReport& report);

// nic_message of many writes in flight, nic_latency of one alone; each whole and on one queue.
std::vector<Sample> link_samples(const LinkReport& report);
// The simulator's NIC. `line`: the rate that the path is sold or shaped to.
std::string link_nic_file(const LinkReport& report, const live::LinkConstants& constants,
                          const TransportLimits& limits, std::optional<Bandwidth> line);

}  // namespace kvlane::cli
