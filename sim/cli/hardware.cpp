#include "sim/cli/hardware.h"

#include <fmt/format.h>

#include "sim/base/input_error.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/yaml_tree.h"

namespace kvlane::cli {
namespace {

// As YAML reads it back.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + '\'';
}

}  // namespace

std::vector<std::string> hardware_overrides(const std::string& path, const std::string& scenario,
                                            const Context& context) {
  if (path.empty()) return {};
  const InputFiles files({context.preset_dir});
  const SourcePlace named{"--hardware", 1, 1};
  const std::string found = files.find({path, named}, "hardware");
  // Says at its own place what is wrong with the file.
  read_gpu(files.peek(found, named), found);
  const YamlNode root = parse_yaml(files.peek(scenario, {scenario}), scenario);
  std::vector<std::string> overrides;
  const YamlNode* instances = root.find("instances");
  if (instances == nullptr || instances->kind != YamlNode::Kind::list) return overrides;
  const std::string file = found.find('/') == std::string::npos ? "./" + found : found;
  for (std::size_t i = 0; i < instances->items.size(); ++i) {
    // By name, since another instance may be named like a position.
    const YamlNode* name = instances->items[i].find("name");
    const bool named_so =
        name != nullptr && !name->text.empty() && name->text.find('"') == std::string::npos;
    const std::string item = named_so ? fmt::format("\"{}\"", name->text) : fmt::format("{}", i);
    overrides.push_back(fmt::format("instances.{}.gpu={}", item, quoted(file)));
  }
  return overrides;
}

}  // namespace kvlane::cli
