#pragma once
// A NIC file from a message-size curve: time of a message of a stream = max(1 / message rate,
// bytes / (line rate x efficiency)), the model of sim/net/nic_spec.h. Every second size is held
// out: a curve has too few for a hash to halve.

#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "sim/gpu/sample.h"
#include "sim/scenario/nic_file.h"

namespace kvlane::calibrate {

struct NicFit {
  NicFile nic;  // message rate, efficiency, error and, where it was measured, latency
  std::size_t fitted = 0;
  HeldOutError held_out;
  std::vector<std::string> warnings;
};

// Samples nic_message, and nic_latency where there are some, of one machine; the base gives the
// line rate and all else. Throws FitError.
NicFit fit_nic(const std::vector<Sample>& samples, const NicFile& base, const std::string& name);

// As a file that read_nic_file reads back to the same NIC.
std::string nic_text(const NicFile& nic);

std::string nic_table(const NicFit& fit);
std::string nic_json(const NicFit& fit);

}  // namespace kvlane::calibrate
