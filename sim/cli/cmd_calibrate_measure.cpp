// kvlane calibrate kernels, memory and pcie: this machine's samples.

#include <fmt/format.h>

#include <vector>

#include "calibrate/measure/grid.h"
#include "calibrate/measure/measure_report.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/measuring.h"
#include "sim/cli/output_file.h"

namespace kvlane::cli {
namespace {

constexpr char kHow[] =
    "\nSamples are JSON lines as those of `calibrate import`, with the machine's state beside the "
    "times.\n"
    "Every repetition starts with cold caches; the median counts. Above a load average of a "
    "quarter "
    "of the\n"
    "threads (at least 0.5) it waits up to 120 s, then gives up (exit 1) unless --force. Ctrl-C "
    "keeps what\n"
    "is measured (exit 130).";

using ShapesOf = std::vector<Sample> (*)(const calibrate::Device&, const MeasureOptions&,
                                         const Context&);

int run(const std::string& action, const std::string& about, const Args& args,
        const Context& context, ShapesOf shapes_of) {
  Arguments arguments;
  MeasureOptions options;
  add_measure_options(arguments, options);
  const std::string command = "calibrate " + action;
  if (!arguments.parse(command, about + kHow, args)) return 0;
  check_measure_options(command, arguments, options);
  const Replace replace = options.force ? Replace::allow : Replace::refuse;
  check_can_write(options.output, replace);
  const auto device = open_measured(options, context);
  const Measured measured =
      measure(*device, shapes_of(*device, options, context), options, context);
  if (measured.result.samples.empty()) return measured.status.value_or(1);
  write_whole_file(options.output, samples_text(measured.result.samples), replace);
  print(options.format == "json"
            ? calibrate::measure_json(measured.result)
            : calibrate::measure_table(measured.result, options.output, context.columns));
  return measured.status.value_or(0);
}

}  // namespace

int calibrate_kernels(const Args& args, const Context& context) {
  return run("kernels",
             "kvlane calibrate kernels --device cpu|cuda:N -o SAMPLES.jsonl: every kernel and GEMM "
             "over shapes that\n"
             "the models that ship visit, and the ceilings: a streaming read, a copy, a large "
             "product.",
             args, context, kernel_shapes);
}

int calibrate_memory(const Args& args, const Context& context) {
  return run("memory",
             "kvlane calibrate memory --device cpu|cuda:N -o SAMPLES.jsonl: the device's memory, "
             "streaming read and\n"
             "copy over sizes; a CPU's copy by one thread too.",
             args, context,
             [](const calibrate::Device& device, const MeasureOptions& options, const Context&) {
               return calibrate::memory_grid(device.is_cpu(), grid_size(options));
             });
}

int calibrate_pcie(const Args& args, const Context& context) {
  return run(
      "pcie",
      "kvlane calibrate pcie --device cpu|cuda:N -o SAMPLES.jsonl: copies between host and "
      "device over sizes:\n"
      "both ways, both at once, pinned or not. A CPU has no such link: copies in memory, one "
      "way and both.",
      args, context,
      [](const calibrate::Device& device, const MeasureOptions& options, const Context&) {
        return calibrate::link_grid(device.is_cpu(), grid_size(options));
      });
}

}  // namespace kvlane::cli
