#pragma once
// --hardware FILE: a scenario on a calibrated GPU.

#include <string>
#include <vector>

#include "sim/cli/commands.h"

namespace kvlane::cli {

// What the option replaces, for --help.
inline constexpr char kHardwareHelp[] =
    "GPU file (kvlane calibrate all, calibrate fit) in place of the `gpu` of every instance, with "
    "what the scenario changes inline: kernels, memory, PCIe, host step and gathers. Counts, tp, "
    "NIC, host_memory and price stay the scenario's; --set and a study's axes still come on top";

// Overrides as of --set that give every instance of the scenario at `scenario` the GPU of `path`;
// they come before those of the user. `path`: "" for none. Throws InputError for what is no GPU
// file.
std::vector<std::string> hardware_overrides(const std::string& path, const std::string& scenario,
                                            const Context& context);

}  // namespace kvlane::cli
