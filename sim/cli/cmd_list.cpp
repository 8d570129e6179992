// kvlane list models|hardware|strategies|scenarios|profiles|workloads: what ships.

#include <fmt/format.h>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"
#include "sim/scenario/catalog.h"
#include "sim/scenario/strategy_file.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane list WHAT: what ships; WHAT is one of models, hardware, strategies, scenarios, "
    "profiles,\n"
    "workloads. The names are those that scenario files use.";

std::vector<CatalogEntry> strategies() {
  std::vector<CatalogEntry> entries;
  for (const auto& [name, description] : list_policies()) {
    entries.push_back({name, "policy", description, ""});
  }
  return entries;
}

}  // namespace

int list_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format;
  arguments.options.add_options()("format", po::value(&format)->default_value("table"),
                                  "table or json");
  if (!arguments.parse("list", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  const std::vector<std::string> words = {"models",    "hardware", "strategies",
                                          "scenarios", "profiles", "workloads"};
  if (arguments.positional.size() != 1) {
    throw UsageError(fmt::format("list: {} words; expected one of {}", arguments.positional.size(),
                                 fmt::join(words, ", ")));
  }
  const std::string& what = arguments.positional[0];
  expect_word("list", what, words);
  const std::vector<std::string> dirs = {context.preset_dir};
  const std::vector<CatalogEntry> entries = what == "models"       ? list_models(dirs)
                                            : what == "hardware"   ? list_hardware(dirs)
                                            : what == "strategies" ? strategies()
                                            : what == "profiles"   ? list_profiles(dirs)
                                            : what == "workloads"  ? list_workloads(dirs)
                                                                   : list_scenarios(dirs);
  if (format == "json") {
    JsonWriter json;
    json.begin_object().member("schema", "kvlane.list/1").key("rows").begin_array();
    for (const CatalogEntry& e : entries) {
      json.begin_object(JsonWriter::Layout::one_line)
          .member("name", e.name)
          .member("kind", e.kind)
          .member("description", e.description)
          .end_object();
    }
    print(json.end_array().end_object().finish());
    return 0;
  }
  TextTable table({"name", "kind", "description"});
  table.align_left(1);
  table.align_left(2);
  std::size_t widest = 0;
  for (const CatalogEntry& e : entries)
    widest = std::max(widest, e.name.size() + e.kind.size() + 4);
  const auto room = static_cast<std::size_t>(std::max(20, context.columns)) - widest;
  for (const CatalogEntry& e : entries) {
    std::string description = e.description;
    if (description.size() > room) {
      std::size_t cut = description.rfind(' ', room - 3);
      if (cut == std::string::npos) cut = room - 3;
      description = description.substr(0, cut) + "...";
    }
    table.add_row({e.name, e.kind, description});
  }
  print(table.render(context.columns));
  return 0;
}

}  // namespace kvlane::cli
