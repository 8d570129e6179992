// kvlane calibrate all: this machine measured and fitted in one go.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/fit/fit_report.h"
#include "calibrate/fit/hardware_writer.h"
#include "calibrate/fit/own_base.h"
#include "calibrate/measure/grid.h"
#include "calibrate/measure/measure_report.h"
#include "calibrate/validate/kernel_rows.h"
#include "sim/base/input_error.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/measuring.h"
#include "sim/cli/output_file.h"
#include "sim/cli/shipped_gpus.h"
#include "sim/gpu/find_gpu.h"

namespace kvlane::cli {
namespace {

constexpr char kAbout[] =
    "kvlane calibrate all --device cpu|cuda:N -o NAME.yaml: measures memory, copies and every "
    "kernel of this\n"
    "machine (a few minutes), leaves the samples in NAME.samples.jsonl, fits them, and says how "
    "far "
    "the fit is\n"
    "from the half of the shapes that it has not seen. Then: kvlane run SCENARIO --hardware "
    "NAME.yaml.\n"
    "Above a load average of a quarter of the threads (at least 0.5) it waits up to 120 s, then "
    "gives up\n"
    "(exit 1) unless --force. Ctrl-C keeps the samples (exit 130); `calibrate fit` makes of them "
    "what "
    "they allow.";

std::string samples_path(const std::string& output) {
  const std::string ending = ".yaml";
  const bool yaml = output.size() > ending.size() &&
                    output.compare(output.size() - ending.size(), ending.size(), ending) == 0;
  if (!yaml)
    throw UsageError(fmt::format("calibrate all: -o {}; expected NAME.yaml", shortened(output)));
  return output.substr(0, output.size() - ending.size()) + ".samples.jsonl";
}

// And the other ways to copy: on a CPU the copy in memory is among the kernels' ceilings already.
std::vector<Sample> all_shapes(const calibrate::Device& device, const MeasureOptions& options,
                               const Context& context) {
  std::vector<Sample> shapes = kernel_shapes(device, options, context);
  for (Sample& link : calibrate::link_grid(device.is_cpu(), grid_size(options))) {
    if (link.variant != calibrate::kMemoryCopy) shapes.push_back(std::move(link));
  }
  return shapes;
}

GpuSpec base_of(const std::vector<Sample>& samples, const Context& context) {
  const std::vector<GpuSpec> shipped = shipped_gpus(context.preset_dir);
  if (const GpuSpec* gpu = find_gpu(shipped, samples.front().machine)) return *gpu;
  if (auto own = calibrate::base_of_own(samples)) return std::move(*own);
  throw std::runtime_error(
      fmt::format("the samples of {} lack a streaming read, a GEMM, or copies (of a GPU: to and "
                  "from the host): "
                  "no hardware file without them",
                  samples.front().machine));
}

// One row a kernel, as `calibrate validate` says it of the same two files.
std::vector<calibrate::ValidationRow> held_out_rows(const std::vector<Sample>& samples,
                                                    const GpuSpec& gpu) {
  std::vector<calibrate::ValidationRow> rows = calibrate::kernel_rows(samples, {gpu});
  std::erase_if(rows, [](const calibrate::ValidationRow& row) { return row.domain != "held out"; });
  return rows;
}

}  // namespace

int calibrate_all(const Args& args, const Context& context) {
  Arguments arguments;
  MeasureOptions options;
  add_measure_options(arguments, options);
  if (!arguments.parse("calibrate all", kAbout, args)) return 0;
  check_measure_options("calibrate all", arguments, options);
  const std::string samples_file = samples_path(options.output);
  const Replace replace = options.force ? Replace::allow : Replace::refuse;
  check_can_write(options.output, replace);
  check_can_write(samples_file, replace);

  std::vector<Sample> samples;
  std::string measured_text;
  {
    const auto device = open_measured(options, context);
    const Measured measured =
        measure(*device, all_shapes(*device, options, context), options, context);
    samples = measured.result.samples;
    if (!samples.empty()) write_whole_file(samples_file, samples_text(samples), replace);
    if (measured.status) return *measured.status;
    measured_text = calibrate::measure_table(measured.result, samples_file, context.columns);
  }
  calibrate::FitOptions choices;
  choices.lenient = true;
  calibrate::MachineFit fit = calibrate::fit_machine(samples, base_of(samples, context), choices);
  calibrate::derive_from_fits(fit.gpu, samples);
  write_whole_file(options.output, calibrate::hardware_text(fit.gpu), replace);
  const std::vector<calibrate::ValidationRow> rows = held_out_rows(samples, fit.gpu);
  if (options.format == "json") {
    print(calibrate::validation_json(rows));
  } else {
    print(measured_text + '\n' + calibrate::fit_table(fit, context.columns) + '\n' +
          calibrate::validation_table(rows, context.columns));
  }
  return 0;
}

}  // namespace kvlane::cli
