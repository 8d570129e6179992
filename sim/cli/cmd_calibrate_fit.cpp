// kvlane calibrate fit SAMPLES.jsonl... -o NAME.yaml

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "calibrate/fit/fit.h"
#include "calibrate/fit/hardware_writer.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/cli/shipped_gpus.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;
using calibrate::KernelReport;
using calibrate::MachineFit;

constexpr char kAbout[] =
    "kvlane calibrate fit SAMPLES.jsonl... -o NAME.yaml: the constants of one machine's hardware "
    "file from\n"
    "measurements (kvlane calibrate import). Half of the shapes are fitted to, the error is stated "
    "on the other\n"
    "half. What the samples do not cover stays as in the base: the shipped file of that name, or "
    "--base.";

// KERNEL=TEXT
std::pair<std::string, std::string> split(const std::string& option, const std::string& text) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw UsageError(fmt::format("calibrate fit: {} '{}'; expected KERNEL=TEXT", option, text));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

void expect_kernel(const std::string& option, const std::string& kernel) {
  if (sample_dimensions(kernel).empty()) {
    throw UsageError(fmt::format("calibrate fit: {} of '{}'; expected a kernel: {}", option, kernel,
                                 fmt::join(sample_kernels(), ", ")));
  }
}

std::vector<Sample> of_machine(std::vector<Sample> samples, const std::string& machine,
                               const std::string& path) {
  std::set<std::string> names;
  for (const Sample& sample : samples) names.insert(sample.machine);
  if (names.empty()) throw InputError({path, 0, 0}, "no samples", "expected measurements");
  if (!machine.empty() ? !names.contains(machine) : names.size() > 1) {
    throw InputError({path, 0, 0},
                     fmt::format("samples of {}{}", fmt::join(names, ", "),
                                 machine.empty() ? "" : fmt::format(", none of {}", machine)),
                     "expected --machine NAME to choose one");
  }
  const std::string chosen = machine.empty() ? *names.begin() : machine;
  std::erase_if(samples, [&](const Sample& sample) { return sample.machine != chosen; });
  return samples;
}

GpuSpec base_of(const std::string& base, const std::string& machine, const Context& context,
                InputFiles& files) {
  if (!base.empty()) {
    const PlacedText name{base, {"--base", 0, 0}};
    const std::string path = files.find(name, "hardware");
    GpuSpec gpu = read_gpu(files.read(path, name.place), path);
    if (gpu.name != machine) {
      throw InputError({path, 0, 0}, fmt::format("a file of {}", gpu.name),
                       fmt::format("expected the base of {}: its `name` and datasheet", machine));
    }
    return gpu;
  }
  for (GpuSpec& gpu : shipped_gpus(context.preset_dir)) {
    if (gpu.name == machine) return std::move(gpu);
  }
  throw InputError({machine, 0, 0}, "no shipped hardware file has this name",
                   "expected --base FILE with datasheet, PCIe and host values (all keys of "
                   "`kvlane schema hardware`)");
}

std::string constants_text(const KernelReport& kernel) {
  std::string text;
  for (const auto& constant : kernel.constants) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", constant.key, constant.value);
  }
  return text;
}

std::string fit_table(const MachineFit& fit, const std::string& out, int width) {
  TextTable table({"kernel", "variant", "fitted", "held out", "MAPE %", "median %", "p90 %"});
  table.align_left(1);
  for (const KernelReport& kernel : fit.kernels) {
    table.add_row({kernel.kernel, kernel.variant, fmt::format("{}", kernel.fitted),
                   fmt::format("{}", kernel.held_out.count),
                   fmt::format("{:.1f}", 100 * kernel.held_out.mean),
                   fmt::format("{:.1f}", 100 * kernel.held_out.median),
                   fmt::format("{:.1f}", 100 * kernel.held_out.p90)});
  }
  std::string text = fmt::format("{}: {}\n\n{}\n", fit.gpu.name, out, table.render(width));
  for (const KernelReport& kernel : fit.kernels) {
    text += wrapped(fmt::format("{}: {}", kernel.kernel, constants_text(kernel)), width, 2);
    for (const std::string& warning : kernel.warnings) {
      text += wrapped(fmt::format("warning: {}: {}", kernel.kernel, warning), width, 2);
    }
  }
  for (const std::string& reason : fit.left_out) text += wrapped("left out: " + reason, width, 2);
  return text;
}

std::string fit_json(const MachineFit& fit) {
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.calibrate_fit/1").member("machine", fit.gpu.name);
  json.key("rows").begin_array();
  for (const KernelReport& kernel : fit.kernels) {
    json.begin_object(JsonWriter::Layout::one_line);
    json.member("kernel", kernel.kernel).member("variant", kernel.variant);
    json.member("source", kernel.source);
    json.member("fitted", static_cast<std::int64_t>(kernel.fitted));
    json.member("held_out", static_cast<std::int64_t>(kernel.held_out.count));
    json.member("mape", kernel.held_out.mean).member("median", kernel.held_out.median);
    json.member("p90", kernel.held_out.p90);
    json.key("constants").begin_object();
    for (const auto& constant : kernel.constants) json.member(constant.key, constant.value);
    json.end_object().end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

}  // namespace

int calibrate_fit(const Args& args, const Context& context) {
  Arguments arguments;
  std::string machine, base, out, format;
  std::vector<std::string> variants, skip;
  arguments.options.add_options()("output,o", po::value(&out), "hardware file to write (required)")(
      "machine", po::value(&machine), "which machine, where the samples are of several")(
      "base", po::value(&base), "hardware file or preset for what the samples do not cover")(
      "variant", po::value(&variants)->composing(),
      "KERNEL=TEXT: of several variants of a kernel, the one with this text in its source or "
      "variant (repeatable)")("skip", po::value(&skip)->composing(),
                              "KERNEL that stays as in the base (repeatable)")(
      "format", po::value(&format)->default_value("table"), "table or json")(
      "force", "replace a file that exists");
  if (!arguments.parse("calibrate fit", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  if (out.empty()) throw UsageError("calibrate fit: no -o; expected the hardware file to write");
  if (arguments.positional.empty()) {
    throw UsageError("calibrate fit: no samples; expected at least one SAMPLES.jsonl");
  }
  calibrate::FitOptions options;
  for (const std::string& text : variants) {
    const auto [kernel, part] = split("--variant", text);
    expect_kernel("--variant", kernel);
    options.variants[kernel] = part;
  }
  for (const std::string& kernel : skip) {
    expect_kernel("--skip", kernel);
    options.skip.insert(kernel);
  }
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  check_outputs_differ({out}, arguments.positional);
  check_can_write(out, replace);

  InputFiles files({context.preset_dir});
  std::vector<Sample> samples;
  for (const std::string& path : arguments.positional) {
    auto more = parse_samples(files.read(path, {path, 0, 0}), path);
    samples.insert(samples.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  samples = of_machine(std::move(samples), machine, arguments.positional.front());
  const GpuSpec gpu = base_of(base, samples.front().machine, context, files);
  try {
    const MachineFit fit = calibrate::fit_machine(samples, gpu, options);
    write_whole_file(out, calibrate::hardware_text(fit.gpu), replace);
    print(format == "json" ? fit_json(fit) : fit_table(fit, out, context.columns));
  } catch (const calibrate::FitError& error) {
    throw InputError({arguments.positional.front(), 0, 0}, error.what(),
                     "expected samples that a fit can rest on");
  }
  return 0;
}

}  // namespace kvlane::cli
