// kvlane calibrate validate FOLDER | SAMPLES.jsonl...: how wrong the hardware files are.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "calibrate/import/folder.h"
#include "calibrate/validate/kernel_rows.h"
#include "calibrate/validate/link_rows.h"
#include "calibrate/validate/reference_model.h"
#include "calibrate/validate/serving_rows.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/draw_figures.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/cli/shipped_gpus.h"
#include "sim/report/csv.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using calibrate::ValidationRow;

constexpr char kAbout[] =
    "kvlane calibrate validate FOLDER | SAMPLES.jsonl...: the shipped hardware files (or those of "
    "--hardware)\n"
    "against measurements: kernels on shapes held out of the fits, other sources of the same "
    "kernels, the table\n"
    "mode, whole batches and token gaps of engines, links. FOLDER holds the published tables, a "
    "folder a data\n"
    "set (aiconfigurator, vidur, llmservingsim, frontier, splitwise, e2e_tables, argonne, "
    "llmcompass, rdma, pcie).\n"
    "Exit status 1 where a mark is missed. --plot DIR writes points.csv and draws it with "
    "analysis/validation.py.";

std::vector<Sample> read_measurements(const std::vector<std::string>& paths,
                                      const std::vector<GpuSpec>& gpus, InputFiles& files) {
  std::vector<Sample> samples;
  for (const std::string& path : paths) {
    std::vector<Sample> more;
    if (fs::is_directory(path)) {
      more = calibrate::import_folder(path, gpus).samples;
      if (more.empty()) {
        throw InputError({path, 0, 0}, "no table of a known data set in the folder",
                         "expected folders such as aiconfigurator, vidur, rdma");
      }
    } else {
      more = parse_samples(files.read(path, {path, 0, 0}), path);
    }
    samples.insert(samples.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  return samples;
}

// The shipped GPUs; a file of --hardware takes the place of the one of its name.
std::vector<GpuSpec> read_gpus(const std::vector<std::string>& own, const std::string& preset_dir,
                               InputFiles& files) {
  std::vector<GpuSpec> gpus = shipped_gpus(preset_dir);
  for (const std::string& path : own) {
    GpuSpec gpu = read_gpu(files.read(path, {path, 0, 0}), path);
    const auto same = std::find_if(
        gpus.begin(), gpus.end(), [&](const GpuSpec& shipped) { return shipped.name == gpu.name; });
    if (same == gpus.end()) {
      gpus.push_back(std::move(gpu));
    } else {
      *same = std::move(gpu);
    }
  }
  return gpus;
}

// Columns of points.csv.
std::string points_header() {
  return csv_line(std::vector<std::string>{"what", "gpu", "domain", "source", "variant", "kernel",
                                           "dtype", "shape", "measured_s", "predicted_s"});
}

std::string point_line(const std::string& what, const std::string& domain, const Sample& sample,
                       double predicted) {
  return csv_line(std::vector<std::string>{
      what, sample.machine, domain, sample.source, sample.variant, sample.kernel, sample.dtype,
      shape_text(sample), fmt::format("{}", sample.seconds), fmt::format("{}", predicted)});
}

}  // namespace

int calibrate_validate(const Args& args, const Context& context) {
  Arguments arguments;
  std::vector<std::string> hardware, kinds;
  std::string format, plot;
  arguments.options.add_options()("hardware", po::value(&hardware)->composing(),
                                  "a GPU file instead of the shipped one of its name (repeatable)")(
      "format", po::value(&format)->default_value("table"), "table or json")(
      "marks", "only the rows that have a mark")("what", po::value(&kinds)->composing(),
                                                 "only rows of this kind: gemm, decode, e2e_tpot, "
                                                 "gemm_between_sources, ... (repeatable)")(
      "plot", po::value(&plot), "folder for points.csv and the figures")(
      "force", "replace files that exist");
  if (!arguments.parse("calibrate validate", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  expect_name(arguments, "plot", plot);
  if (arguments.positional.empty()) {
    throw UsageError("calibrate validate: no input; expected a FOLDER of tables or SAMPLES.jsonl");
  }
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  const std::string points_path = (fs::path(plot) / "points.csv").string();
  std::optional<OutputFolder> folder;
  if (!plot.empty()) {
    folder.emplace(plot);
    check_can_write(points_path, replace);
  }
  InputFiles files({context.preset_dir});
  const std::vector<GpuSpec> gpus = read_gpus(hardware, context.preset_dir, files);
  constexpr std::int64_t kSteps = 6;
  Progress progress("validation", kSteps, context.stderr_is_terminal, context.columns);
  std::int64_t step = 0;
  const auto next = [&] { progress.set(++step); };

  const std::vector<Sample> samples = read_measurements(arguments.positional, gpus, files);
  next();
  std::string points;
  calibrate::PointSink sink;
  if (!plot.empty()) {
    points = points_header();
    sink = [&](const std::string& what, const std::string& domain, const Sample& sample,
               double predicted) { points += point_line(what, domain, sample, predicted); };
  }
  std::vector<ValidationRow> rows = calibrate::kernel_rows(samples, gpus, sink);
  next();
  const auto append = [&](std::vector<ValidationRow> more) {
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    next();
  };
  append(calibrate::table_rows(samples, gpus));
  append(calibrate::disagreement_rows(samples, gpus));
  calibrate::ReferenceModels models(files);
  append(calibrate::serving_rows(
      samples, gpus, [&](const std::string& name) { return models.find(name); }, sink));
  append(calibrate::link_rows(samples, sink));
  if (rows.empty()) {
    throw InputError({arguments.positional[0], 0, 0}, "nothing in it that a hardware file predicts",
                     "expected samples of a machine that has a hardware file");
  }
  const bool hold = calibrate::all_hold(rows);
  if (!kinds.empty()) {
    std::set<std::string> known;
    for (const ValidationRow& row : rows) known.insert(row.what);
    for (const std::string& word : kinds) {
      if (!known.contains(word)) {
        throw UsageError(fmt::format("calibrate validate: --what {}; expected one of {}", word,
                                     fmt::join(known, ", ")));
      }
    }
    std::erase_if(rows, [&](const ValidationRow& row) {
      return std::find(kinds.begin(), kinds.end(), row.what) == kinds.end();
    });
  }
  if (arguments.has("marks")) {
    std::erase_if(rows, [](const ValidationRow& row) { return !row.mark; });
  }
  if (!plot.empty()) {
    write_whole_file(points_path, points, replace);
    folder->keep();
    draw_figures("validation.py", {points_path, "--out", plot}, context);
  }
  print(format == "json" ? calibrate::validation_json(rows)
                         : calibrate::validation_table(rows, context.columns));
  return hold ? 0 : 1;
}

}  // namespace kvlane::cli
