// kvlane schema [KIND]: the JSON Schema (2020-12) that the reader itself is made from.

#include <fmt/format.h>

#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/scenario/catalog.h"
#include "sim/study/study_file.h"

namespace kvlane::cli {
namespace {

constexpr char kAbout[] =
    "kvlane schema [KIND]: the JSON Schema of a kind of file; without KIND that of a scenario. "
    "Editors\n"
    "with YAML support complete and check files with it.";

}  // namespace

int schema_command(const Args& args, const Context&) {
  Arguments arguments;
  if (!arguments.parse("schema", kAbout, args)) return 0;
  std::vector<std::pair<std::string, const MappingBase*>> schemas = list_schemas();
  schemas.emplace_back("study", &study_mapping());
  if (arguments.positional.size() > 1) {
    throw UsageError(
        fmt::format("schema: {} words; expected at most one KIND", arguments.positional.size()));
  }
  const std::string kind =
      arguments.positional.empty() ? schemas[0].first : arguments.positional[0];
  std::vector<std::string> names;
  for (const auto& [name, mapping] : schemas) names.push_back(name);
  expect_word("schema", kind, names);
  for (const auto& [name, mapping] : schemas) {
    if (name == kind) print(json_schema_text(*mapping, "kvlane " + name));
  }
  return 0;
}

}  // namespace kvlane::cli
