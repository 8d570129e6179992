#pragma once
// What the measuring actions of `kvlane calibrate` share: the device, the load gate, the progress
// bar and Ctrl-C.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure/device.h"
#include "calibrate/measure/grid.h"
#include "calibrate/measure/session.h"
#include "sim/cli/arguments.h"

namespace kvlane::cli {

struct MeasureOptions {
  std::string device = "cpu";
  int threads = 0;
  std::string format, output;
  bool force = false, quick = false;
};

// Adds --device, --threads, -o, --quick, --force and --format.
void add_measure_options(Arguments& arguments, MeasureOptions& options);
// After parsing: UsageError for what cannot be.
void check_measure_options(const std::string& command, const Arguments& arguments,
                           MeasureOptions& options);

// Ends in InputError where the word names no device of this machine or build.
std::unique_ptr<calibrate::Device> open_measured(const MeasureOptions& options,
                                                 const Context& context);

calibrate::GridSize grid_size(const MeasureOptions& options);
// The grid of the models that ship, after the device's memory: its ceilings.
std::vector<Sample> kernel_shapes(const calibrate::Device& device, const MeasureOptions& options,
                                  const Context& context);

struct Measured {
  calibrate::SessionResult result;
  // Set: the program ends with this status. 1: the machine is busy (said on stderr, nothing is
  // measured); 130: interrupted, `result` has what was measured until then.
  std::optional<int> status;
};

Measured measure(calibrate::Device& device, const std::vector<Sample>& shapes,
                 const MeasureOptions& options, const Context& context);

// JSON lines.
std::string samples_text(const std::vector<Sample>& samples);

}  // namespace kvlane::cli
