#pragma once
// What a NIC can do (docs/system.md 4): time of a transfer = max(messages / message_rate, bytes /
// (line
// * efficiency)) + latency, plus a fixed CPU cost a doorbell and a descriptor before it leaves.

#include <optional>
#include <string>

#include "sim/base/units.h"

namespace kvlane {

struct NicSpec {
  std::string name;
  Bandwidth rate;            // line rate of the port, each direction
  double efficiency = 1.0;   // share of the line left after headers (MTU)
  double message_rate = 0;   // work requests a second of one queue pair; 0: no bound
  Duration latency{0};       // one way, NIC to NIC, without switches
  Duration per_message{0};   // CPU time of posting one work request
  Duration per_doorbell{0};  // CPU time of ringing once
  // What a byte that leaves and one that arrives take from kernels on the same processors: where
  // compute is a CPU's and shares it with the transport (GpuSpec::concurrent_streams false).
  Duration cpu_a_byte_sent{0};
  Duration cpu_a_byte_received{0};
  int max_send_sge = 30;
  int max_recv_sge = 30;
  int max_read_sge = 30;
  Bytes max_inline{0};
  Bytes mtu{4096};
  bool gpu_direct = true;
  bool lane_priority = true;
  std::optional<double> error;  // mean absolute error of its times, as a share
};

}  // namespace kvlane
