// kvlane calibrate report: figures of measured against fitted, and rooflines.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/fit/ceilings.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/draw_figures.h"
#include "sim/cli/output_file.h"
#include "sim/gpu/kernel_work.h"
#include "sim/gpu/sample_cost.h"
#include "sim/report/csv.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane calibrate report SAMPLES.jsonl --hardware NAME.yaml --out DIR: calibration.csv with "
    "every sample\n"
    "(measured and fitted time, FLOPs, bytes, whether it was fitted to) and ceilings.csv, drawn "
    "by\n"
    "analysis/calibration.py: measured against fitted, and a roofline of every kernel.";

std::string part_of(const Sample& sample) {
  if (!sample.set_aside.empty()) return sample.set_aside;
  return held_out(sample) ? "held out" : "fitted";
}

std::string points_csv(const std::vector<Sample>& samples, const GpuSpec& gpu) {
  std::string text =
      csv_line(std::vector<std::string>{"kernel", "variant", "shape", "part", "measured_s", "p25_s",
                                        "p75_s", "fitted_s", "flops", "bytes"});
  const SampleCost cost(gpu);
  for (const Sample& sample : samples) {
    const auto work = kernel_work(sample);
    const auto fitted = cost.seconds(sample);
    if (!work) continue;
    const auto number = [](double value) { return value > 0 ? fmt::format("{}", value) : ""; };
    text += csv_line(std::vector<std::string>{
        sample.kernel, sample.variant, shape_text(sample), part_of(sample), number(sample.seconds),
        number(sample.conditions.seconds_p25), number(sample.conditions.seconds_p75),
        fitted ? number(*fitted) : "", number(work->flops), number(work->bytes)});
  }
  return text;
}

std::string ceilings_csv(const std::vector<Sample>& samples) {
  const calibrate::Ceilings best = calibrate::ceilings_of(samples);
  return csv_line(std::vector<std::string>{"machine", "read_bytes_per_s", "copy_bytes_per_s",
                                           "gemm_flop_per_s"}) +
         csv_line(std::vector<std::string>{samples.front().machine, fmt::format("{}", best.read),
                                           fmt::format("{}", best.copy),
                                           fmt::format("{}", best.flops)});
}

}  // namespace

int calibrate_report(const Args& args, const Context& context) {
  Arguments arguments;
  std::string hardware, out;
  arguments.options.add_options()("hardware", po::value(&hardware),
                                  "the GPU file that was fitted (required)")(
      "out", po::value(&out), "folder for the tables and figures (required)")(
      "force", "replace files that exist");
  if (!arguments.parse("calibrate report", kAbout, args)) return 0;
  if (arguments.positional.size() != 1) {
    throw UsageError(fmt::format("calibrate report: {} files; expected one SAMPLES.jsonl",
                                 arguments.positional.size()));
  }
  if (hardware.empty() || out.empty())
    throw UsageError("calibrate report: expected --hardware NAME.yaml and --out DIR");
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  InputFiles files({context.preset_dir});
  const std::string& path = arguments.positional[0];
  std::vector<Sample> samples = parse_samples(files.read(path, {path, 0, 0}), path);
  const SourcePlace named{"--hardware", 0, 0};
  const std::string found = files.find({hardware, named}, "hardware");
  const GpuSpec gpu = read_gpu(files.read(found, named), found);
  std::erase_if(samples, [&](const Sample& sample) { return sample.machine != gpu.name; });
  if (samples.empty()) {
    throw InputError({path, 0, 0}, fmt::format("no sample of {}", gpu.name),
                     fmt::format("expected samples of the machine of {}", hardware));
  }
  OutputFolder folder(out);
  const std::string points = (fs::path(out) / "calibration.csv").string();
  const std::string ceilings = (fs::path(out) / "ceilings.csv").string();
  check_outputs_differ({points, ceilings}, {path, found});
  check_can_write(points, replace);
  check_can_write(ceilings, replace);
  write_whole_file(points, points_csv(samples, gpu), replace);
  write_whole_file(ceilings, ceilings_csv(samples), replace);
  folder.keep();
  draw_figures("calibration.py", {points, "--ceilings", ceilings, "--out", out}, context);
  print(fmt::format("{} samples of {} in {}\n", samples.size(), gpu.name, points));
  return 0;
}

}  // namespace kvlane::cli
