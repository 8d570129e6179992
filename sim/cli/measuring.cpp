#include "sim/cli/measuring.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "calibrate/measure/load_gate.h"
#include "sim/base/input_error.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/cli/version.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

calibrate::GateAnswer pass_gate(const calibrate::Machine& machine, const MeasureOptions& options,
                                const Context& context) {
  Progress progress("waiting for a quiet machine", static_cast<std::int64_t>(calibrate::kLoadWait),
                    context.stderr_is_terminal, context.columns);
  calibrate::GateWorld world;
  world.load = [] { return calibrate::load_average(); };
  world.sleep = [](double seconds) {
    const double end = steady_seconds() + seconds;
    // In short naps, so that Ctrl-C is heard.
    while (steady_seconds() < end && !Interrupt::came()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  world.stopped = Interrupt::came;
  world.progress = [&](double waited, double, double) {
    progress.set(static_cast<std::int64_t>(waited));
  };
  return calibrate::pass_gate(calibrate::load_limit(static_cast<int>(machine.threads)),
                              options.force, world);
}

}  // namespace

void add_measure_options(Arguments& arguments, MeasureOptions& options) {
  arguments.options.add_options()("device", po::value(&options.device)->default_value("cpu"),
                                  "cpu or cuda:N")(
      "threads", po::value(&options.threads)->default_value(0, "all"), "of the CPU")(
      "output,o", po::value(&options.output), "the file to write (required)")(
      "quick",
      "few small shapes, once each and warm: to see in seconds that everything runs; no numbers to "
      "simulate with")(
      "force",
      "replace a file that exists; measure although the machine is busy, which the samples then "
      "say")("format", po::value(&options.format)->default_value("table"), "table or json");
}

void check_measure_options(const std::string& command, const Arguments& arguments,
                           MeasureOptions& options) {
  expect_word("--format", options.format, {"table", "json"});
  if (!arguments.positional.empty()) {
    throw UsageError(fmt::format("{}: '{}'; expected options only", command,
                                 shortened(arguments.positional[0])));
  }
  if (options.output.empty())
    throw UsageError(fmt::format("{}: no -o; expected the file to write", command));
  if (options.threads < 0 || options.threads > 4096) {
    throw UsageError(fmt::format("{}: --threads {}; expected 1 to 4096", command, options.threads));
  }
  options.force = arguments.has("force");
  options.quick = arguments.has("quick");
}

std::unique_ptr<calibrate::Device> open_measured(const MeasureOptions& options,
                                                 const Context& context) {
  constexpr std::int64_t kQuickOperands = std::int64_t{64} << 20;
  try {
    return calibrate::open_device(options.device, options.threads,
                                  options.quick ? kQuickOperands : 0, context.open_gpu);
  } catch (const calibrate::NoDevice& error) {
    throw UsageError(error.what());
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

calibrate::GridSize grid_size(const MeasureOptions& options) {
  return options.quick ? calibrate::GridSize::quick : calibrate::GridSize::full;
}

std::vector<Sample> kernel_shapes(const calibrate::Device& device, const MeasureOptions& options,
                                  const Context& context) {
  std::vector<Sample> shapes = calibrate::memory_grid(device.is_cpu(), grid_size(options));
  const InputFiles files({context.preset_dir});
  std::vector<ModelSpec> models;
  for (const std::string& path : files.list("models")) {
    models.push_back(read_model(files.peek(path, {path}), path));
  }
  for (Sample& shape : calibrate::kernel_grid(models, device.gemm_dtype(), grid_size(options))) {
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Measured measure(calibrate::Device& device, const std::vector<Sample>& shapes,
                 const MeasureOptions& options, const Context& context) {
  const Interrupt interrupt;
  Measured measured;
  const calibrate::GateAnswer gate = pass_gate(device.machine(), options, context);
  if (!gate.open) {
    measured.status = Interrupt::came() ? Interrupt::status() : 1;
    print_error(gate.problem + "; nothing was measured (--force measures all the same)");
    return measured;
  }
  calibrate::SessionOptions session;
  session.commit = kCommit;
  session.load_average = gate.load;
  session.problem = gate.problem;
  if (options.quick) {
    session.cold = false;
    session.timer.fewest = session.timer.most = 1;
    session.problem += session.problem.empty() ? "a quick run, warm" : "; a quick run, warm";
  }
  session.stopped = Interrupt::came;
  session.now = steady_seconds;
  Progress progress("shapes", static_cast<std::int64_t>(shapes.size()), context.stderr_is_terminal,
                    context.columns);
  session.progress = [&](std::size_t done, std::size_t) {
    progress.set(static_cast<std::int64_t>(done));
  };
  measured.result = calibrate::measure_shapes(device, shapes, session);
  if (measured.result.stopped) measured.status = Interrupt::status();
  if (!measured.result.fault.empty()) {
    print_error(measured.result.fault + "; the samples before it are kept");
    measured.status = 1;
  }
  return measured;
}

std::string samples_text(const std::vector<Sample>& samples) {
  std::string text;
  for (const Sample& sample : samples) text += sample_line(sample);
  return text;
}

}  // namespace kvlane::cli
