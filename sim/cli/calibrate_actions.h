#pragma once
// The actions of `kvlane calibrate`, one file each (cmd_calibrate_*.cpp).

#include "sim/cli/commands.h"

namespace kvlane::cli {

int calibrate_link(const Args& args, const Context& context);
int calibrate_import(const Args& args, const Context& context);
int calibrate_fit(const Args& args, const Context& context);
int calibrate_kernels(const Args& args, const Context& context);
int calibrate_memory(const Args& args, const Context& context);
int calibrate_pcie(const Args& args, const Context& context);
int calibrate_all(const Args& args, const Context& context);
int calibrate_report(const Args& args, const Context& context);
int calibrate_validate(const Args& args, const Context& context);

}  // namespace kvlane::cli
