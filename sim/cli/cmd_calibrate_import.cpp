// kvlane calibrate import --format NAME FILES... -o SAMPLES.jsonl

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/import/artefacts.h"
#include "calibrate/import/import.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/cli/shipped_gpus.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

std::string about() {
  std::string text =
      "kvlane calibrate import --format NAME FILES... -o SAMPLES.jsonl: measurements of other "
      "projects and tools\n"
      "as samples, one JSON object a line (machine, source, licence, variant, kernel, shape, "
      "dtype, "
      "seconds).\n"
      "A row that cannot be read is an error with its file and line; what is skipped or set aside "
      "is counted.\n\nFormats:\n";
  for (const calibrate::ImportFormat& format : calibrate::import_formats()) {
    text += fmt::format("  {:<20} {}{}\n", format.name, format.about,
                        format.names_machine ? "" : "; needs --machine, --source and --licence");
  }
  return text + '\n' + calibrate::artefact_rules();
}

const calibrate::ImportFormat& format_named(const std::string& name) {
  if (const calibrate::ImportFormat* format = calibrate::find_format(name)) return *format;
  std::string names;
  for (const calibrate::ImportFormat& format : calibrate::import_formats()) {
    names += (names.empty() ? "" : ", ") + format.name;
  }
  throw UsageError(fmt::format("calibrate import: format '{}'; expected one of {}", name, names));
}

using Counts = std::map<std::string, std::int64_t>;

std::string answer_table(const std::string& out, const std::vector<Sample>& samples,
                         const Counts& skipped, const Counts& set_aside) {
  std::map<std::pair<std::string, std::string>, std::int64_t> kinds;
  for (const Sample& sample : samples) ++kinds[{sample.machine, sample.kernel}];
  TextTable table({"machine", "kernel", "samples"});
  table.align_left(1);
  for (const auto& [kind, count] : kinds) {
    table.add_row({kind.first, kind.second, fmt::format("{}", count)});
  }
  std::string text = fmt::format("{}: {} samples\n\n{}", out, samples.size(), table.render());
  for (const auto& [rule, count] : set_aside) {
    text += fmt::format("set aside, {}: {}\n", rule, count);
  }
  for (const auto& [reason, count] : skipped)
    text += fmt::format("skipped, {}: {}\n", reason, count);
  return text;
}

std::string answer_json(const std::vector<Sample>& samples, const Counts& skipped,
                        const Counts& set_aside) {
  std::map<std::pair<std::string, std::string>, std::int64_t> kinds;
  for (const Sample& sample : samples) ++kinds[{sample.machine, sample.kernel}];
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.calibrate_import/1").key("rows").begin_array();
  const auto row = [&](const char* what, const std::string& machine, const std::string& name,
                       std::int64_t count) {
    json.begin_object(JsonWriter::Layout::one_line).member("what", what);
    json.member("machine", machine).member("name", name).member("count", count).end_object();
  };
  for (const auto& [kind, count] : kinds) row("samples", kind.first, kind.second, count);
  for (const auto& [rule, count] : set_aside) row("set_aside", "", rule, count);
  for (const auto& [reason, count] : skipped) row("skipped", "", reason, count);
  json.end_array().end_object();
  return json.finish();
}

}  // namespace

int calibrate_import(const Args& args, const Context& context) {
  Arguments arguments;
  std::string name, out, report;
  calibrate::ImportOptions options;
  arguments.options.add_options()("format", po::value(&name), "format of the files (required)")(
      "output,o", po::value(&out), "file for the samples (required)")(
      "machine", po::value(&options.machine), "machine or link, where the files do not name it")(
      "source", po::value(&options.source), "data set and commit; replaces the format's own")(
      "licence", po::value(&options.licence), "of the data; replaces the format's own")(
      "report", po::value(&report)->default_value("table"), "of the counts: table or json")(
      "force", "replace a file that exists");
  if (!arguments.parse("calibrate import", about(), args)) return 0;
  expect_word("--report", report, {"table", "json"});
  if (name.empty()) throw UsageError("calibrate import: no --format; expected one, see --help");
  const calibrate::ImportFormat& format = format_named(name);
  if (out.empty()) throw UsageError("calibrate import: no -o; expected the file for the samples");
  if (arguments.positional.empty()) {
    throw UsageError("calibrate import: no files; expected at least one");
  }
  if (!format.names_machine &&
      (options.machine.empty() || options.source.empty() || options.licence.empty())) {
    throw UsageError(
        fmt::format("calibrate import: {} does not name machine, source and licence; "
                    "expected --machine, --source and --licence",
                    format.name));
  }
  if (format.names_machine && !options.machine.empty()) {
    throw UsageError(
        fmt::format("calibrate import: --machine; {} names its machines itself", format.name));
  }
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  check_outputs_differ({out}, arguments.positional);
  check_can_write(out, replace);

  InputFiles files({context.preset_dir});
  calibrate::Imported imported;
  {
    Progress progress("files", static_cast<std::int64_t>(arguments.positional.size()),
                      context.stderr_is_terminal, context.columns);
    for (const std::string& path : arguments.positional) {
      format.read(path, files.read(path, {path, 0, 0}), options, imported);
      progress.advance();
    }
  }
  const std::vector<GpuSpec> gpus = shipped_gpus(context.preset_dir);
  const Counts set_aside = calibrate::set_artefacts_aside(imported.samples, gpus);
  for (const std::string& machine : calibrate::machines_unchecked(imported.samples, gpus)) {
    ++imported.skipped["rule l2_resident: no hardware file for " + machine];
  }
  std::string text;
  for (const Sample& sample : imported.samples) text += sample_line(sample);
  write_whole_file(out, text, replace);
  print(report == "json" ? answer_json(imported.samples, imported.skipped, set_aside)
                         : answer_table(out, imported.samples, imported.skipped, set_aside));
  return 0;
}

}  // namespace kvlane::cli
