// kvlane calibrate ACTION ...: from published or own measurements to a hardware file, and back.

#include <fmt/format.h>

#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/commands.h"

namespace kvlane::cli {
namespace {

struct Action {
  const char* name;
  int (*run)(const Args&, const Context&);
  const char* what;
};

constexpr Action kActions[] = {
    {"all", calibrate_all, "this machine: measure, fit, and say how good the fit is"},
    {"kernels", calibrate_kernels, "this machine: every kernel over the shapes of the models"},
    {"memory", calibrate_memory, "this machine: its memory, reads and copies"},
    {"pcie", calibrate_pcie, "this machine: copies between host and device"},
    {"link", calibrate_link, "a link: latency, bandwidth and cost of its transfers"},
    {"import", calibrate_import, "tables of other projects and tools -> samples (JSON lines)"},
    {"fit", calibrate_fit, "samples -> a hardware file, with the error on shapes held out"},
    {"report", calibrate_report, "figures: measured against fitted, rooflines"},
    {"validate", calibrate_validate, "hardware files against measurements they were not fitted to"},
};

std::string usage() {
  std::string text =
      "usage: kvlane calibrate ACTION [options]      (kvlane calibrate ACTION --help tells "
      "more)\n\n";
  for (const Action& action : kActions) {
    text += fmt::format("  {:<10} {}\n", action.name, action.what);
  }
  return text;
}

}  // namespace

int calibrate_command(const Args& args, const Context& context) {
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    print(usage());
    return 0;
  }
  for (const Action& action : kActions) {
    if (!args.empty() && args[0] == action.name) {
      return action.run({args.begin() + 1, args.end()}, context);
    }
  }
  std::string names;
  for (const Action& action : kActions)
    names += (names.empty() ? "" : ", ") + std::string(action.name);
  throw UsageError(fmt::format("calibrate: {}; expected one of {}",
                               args.empty() ? "no action" : "no action '" + args[0] + "'", names));
}

}  // namespace kvlane::cli
