#pragma once
// Measures a list of shapes: what takes too long or does not fit is left out, and a stop between
// two calls keeps what is there.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "calibrate/measure/device.h"
#include "calibrate/measure/timer.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

struct SessionOptions {
  TimerOptions timer;
  double budget = 420;  // seconds for all shapes: behind it, fewer repetitions
  bool cold = true;     // flush before every repetition
  std::string commit;   // of this build
  std::string problem;  // of the load gate, or that this is a quick run
  double load_average = 0;
  std::function<bool()> stopped;
  std::function<void(std::size_t done, std::size_t of)> progress;
  std::function<double()> now;  // seconds; for patience
};

struct SessionResult {
  // With the device's machine and conditions. What took too long is among them as set aside,
  // "extrapolated": its time by the largest shape of its kernel that was measured.
  std::vector<Sample> samples;
  std::size_t too_large = 0;  // operands beyond the memory taken for them
  bool stopped = false;
  // A kernel that the device could not prepare (a library that is missing): why, and its shapes are
  // left out.
  std::map<std::string, std::string> refused;
  // What ended the session in a call: "hack_attention sequences=1 ...: CUDA: ..."; else empty. The
  // samples before it stand.
  std::string fault;
};

SessionResult measure_shapes(Device& device, const std::vector<Sample>& shapes,
                             const SessionOptions& options);

}  // namespace kvlane::calibrate
