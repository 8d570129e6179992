// kvlane validate FILE...: reads files as `run` and `sweep` would, and says what they are.

#include <fmt/format.h>

#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/report/json_writer.h"
#include "sim/scenario/catalog.h"
#include "sim/scenario/scenario_file.h"
#include "sim/study/study_check.h"
#include "sim/study/study_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane validate FILE...: checks scenario, study, hardware, model and profile files. Every bad "
    "file\n"
    "is named with its first error; exit status 2 if there is one.";

}  // namespace

int validate_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format;
  std::vector<std::string> set;
  arguments.options.add_options()("format", po::value(&format)->default_value("table"),
                                  "table or json")(
      "set", po::value(&set)->composing(),
      "override a key of a scenario: a.b.c=value (repeatable)");
  if (!arguments.parse("validate", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  if (arguments.positional.empty()) throw UsageError("validate: no file; expected FILE...");
  const std::vector<std::string> dirs = {context.preset_dir};
  const StudyCheck read_and_check = [&](const std::string& path, InputFiles& files) {
    check_study(read_study(path, files), set, dirs);
  };
  bool bad = false;
  std::string good;
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.validate/1").key("rows").begin_array();
  for (const std::string& path : arguments.positional) {
    std::string kind;
    try {
      kind = set.empty() ? validate_file(path, dirs, read_and_check) : "scenario";
      if (!set.empty()) read_scenario(path, set, dirs);
    } catch (const InputError& error) {
      bad = true;
      print_error(error.what());
      continue;
    }
    good += fmt::format("{}: {}, valid\n", path, kind);
    json.begin_object(JsonWriter::Layout::one_line)
        .member("file", path)
        .member("kind", kind)
        .end_object();
  }
  // With an error nothing goes to stdout: the streams' contract.
  if (bad) return 2;
  json.end_array().end_object();
  print(format == "json" ? json.finish() : good);
  return 0;
}

}  // namespace kvlane::cli
