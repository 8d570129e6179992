// kvlane calibrate fit

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/fit/fit_report.h"
#include "calibrate/fit/hardware_writer.h"
#include "calibrate/fit/nic_fit.h"
#include "calibrate/fit/own_base.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/output_file.h"
#include "sim/cli/shipped_gpus.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;
using calibrate::FitOptions;

constexpr char kAbout[] =
    "kvlane calibrate fit SAMPLES.jsonl ... -o NAME.yaml: the constants of one machine from its\n"
    "samples (kvlane calibrate import). Half of the shapes are fitted to, by a hash of the shape; "
    "the\n"
    "error is that on the other half and goes into the file. What the samples do not cover keeps "
    "its\n"
    "value and source from the base: datasheet values, the host, kernels that nobody measured.\n"
    "Samples of this project (kvlane calibrate kernels, all) of a CPU need no base.\n"
    "--nic NAME makes a NIC file of message-size curves instead; there every second size is held "
    "out.";

struct Options {
  std::string machine, base, nic, output, format;
  std::vector<std::string> variants, skip;
};

FitOptions fit_options(const Options& options) {
  FitOptions result;
  const auto check = [](const std::string& option, const std::string& kernel) {
    const auto& known = sample_kernels();
    if (std::find(known.begin(), known.end(), kernel) == known.end()) {
      throw UsageError(fmt::format("calibrate fit: {} of `{}`, which is no kernel of a sample{}",
                                   option, kernel, nearest_hint(kernel, known)));
    }
  };
  for (const std::string& text : options.variants) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at + 1 == text.size()) {
      throw UsageError(fmt::format("calibrate fit: --variant {}; expected KERNEL=TEXT", text));
    }
    check("--variant", text.substr(0, at));
    result.variants[text.substr(0, at)] = text.substr(at + 1);
  }
  for (const std::string& kernel : options.skip) {
    check("--skip", kernel);
    result.skip.insert(kernel);
  }
  return result;
}

std::vector<Sample> read_samples(const Arguments& arguments, InputFiles& files) {
  if (arguments.positional.empty()) {
    throw UsageError("calibrate fit: no samples; expected one or more files of JSON lines");
  }
  std::vector<Sample> samples;
  for (const std::string& path : arguments.positional) {
    const std::vector<Sample> more = parse_samples(files.read(path, {path, 0, 0}), path);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

// Leaves the samples of one machine, and returns its name.
std::string choose_machine(std::vector<Sample>& samples, const std::string& wanted) {
  std::set<std::string> machines;
  for (const Sample& sample : samples) machines.insert(sample.machine);
  const std::string list = fmt::format("{}", fmt::join(machines, ", "));
  if (machines.empty()) throw UsageError("calibrate fit: the files hold no samples");
  if (wanted.empty() && machines.size() > 1) {
    throw UsageError(fmt::format(
        "calibrate fit: samples of several machines; expected --machine with one of {}", list));
  }
  std::string machine = wanted.empty() ? *machines.begin() : wanted;
  if (!machines.contains(machine)) {
    throw UsageError(
        fmt::format("calibrate fit: no samples of `{}`; they are of {}", machine, list));
  }
  std::erase_if(samples, [&](const Sample& sample) { return sample.machine != machine; });
  return machine;
}

// The file of --base, or the shipped one of the machine's name, or what its own samples tell.
GpuSpec read_base(const std::string& named, const std::string& machine,
                  const std::vector<Sample>& samples, const Context& context, InputFiles& files) {
  if (named.empty()) {
    for (GpuSpec& gpu : shipped_gpus(context.preset_dir)) {
      if (gpu.name == machine) return std::move(gpu);
    }
    if (auto own = calibrate::base_of_own(samples)) return std::move(*own);
    throw InputError({"command line", 0, 0},
                     fmt::format("no shipped hardware file is about `{}`", machine),
                     "expected --base FILE with the machine's `name`, datasheet, PCIe and host "
                     "values, and a first guess of the rest (all keys: kvlane schema gpu)");
  }
  const SourcePlace place{"--base", 0, 0};
  const std::string path = files.find({named, place}, "hardware");
  GpuSpec gpu = read_gpu(files.read(path, place), path);
  if (gpu.name != machine) {
    throw InputError({path, 0, 0}, fmt::format("a file about `{}`", gpu.name),
                     fmt::format("expected one about `{}`: its name and datasheet", machine));
  }
  return gpu;
}

bool all_own(const std::vector<Sample>& samples) {
  return std::all_of(samples.begin(), samples.end(), is_own);
}

NicFile read_nic_base(const std::string& named, InputFiles& files) {
  const SourcePlace place{"command line", 0, 0};
  const std::string path = files.find({named, place}, "hardware");
  return read_nic_file(parse_yaml(files.read(path, place), path));
}

}  // namespace

int calibrate_fit(const Args& args, const Context& context) {
  Arguments arguments;
  Options options;
  auto add = arguments.options.add_options();
  add("output,o", po::value(&options.output), "the hardware file to write");
  add("machine", po::value(&options.machine), "whose samples; needed where there are several");
  add("base", po::value(&options.base),
      "preset or file for all that is not fitted; else the preset of the machine's name");
  add("variant", po::value(&options.variants),
      "KERNEL=TEXT: of several sources or variants, those that hold TEXT; may be repeated");
  add("skip", po::value(&options.skip), "KERNEL: stays as in the base; may be repeated");
  add("nic", po::value(&options.nic), "fit a NIC of this name, from nic_message samples");
  add("force", "replace the file");
  add("format", po::value(&options.format)->default_value("table"), "table or json");
  if (!arguments.parse("calibrate fit", kAbout, args)) return 0;
  expect_word("--format", options.format, {"table", "json"});
  if (options.output.empty()) throw UsageError("calibrate fit: no output; expected -o NAME.yaml");
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  check_can_write(options.output, replace);
  check_outputs_differ({options.output}, arguments.positional);

  InputFiles files({context.preset_dir});
  FitOptions fit_choices = fit_options(options);
  std::vector<Sample> samples = read_samples(arguments, files);
  const std::string machine = choose_machine(samples, options.machine);
  const bool json = options.format == "json";
  try {
    if (!options.nic.empty()) {
      const NicFile base = read_nic_base(options.base.empty() ? options.nic : options.base, files);
      const calibrate::NicFit fit = calibrate::fit_nic(samples, base, options.nic);
      write_whole_file(options.output, calibrate::nic_text(fit.nic), replace);
      print(json ? calibrate::nic_json(fit) : calibrate::nic_table(fit));
      return 0;
    }
    const GpuSpec base = read_base(options.base, machine, samples, context, files);
    fit_choices.lenient = all_own(samples);
    calibrate::MachineFit fit = calibrate::fit_machine(samples, base, fit_choices);
    if (fit_choices.lenient) calibrate::derive_from_fits(fit.gpu, samples);
    write_whole_file(options.output, calibrate::hardware_text(fit.gpu), replace);
    print(json ? calibrate::fit_json(fit) : calibrate::fit_table(fit, context.columns));
  } catch (const calibrate::FitError& error) {
    throw InputError({arguments.positional.front(), 0, 0}, error.what(),
                     "expected samples that a fit can rest on (--variant chooses, --skip leaves)");
  }
  return 0;
}

}  // namespace kvlane::cli
