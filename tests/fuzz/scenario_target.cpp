// Every YAML reader, chosen by the kind that the text claims: a value or an InputError, nothing
// else. Names of presets are looked up in scenarios/, so run it in the source folder.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/scenario/catalog.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/instance_file.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/overrides.h"
#include "sim/scenario/profile_file.h"
#include "sim/scenario/scenario_file.h"

namespace {

void read_as_its_kind(const kvlane::YamlNode& root) {
  const std::string kind = kvlane::kind_of(root);
  if (kind == "gpu") kvlane::gpu_from_yaml(root);
  if (kind == "nic") kvlane::read_nic_file(root);
  if (kind == "instance_types") kvlane::read_instance_file(root);
  if (kind == "model") kvlane::model_from_yaml(root);
  if (kind == "profile") kvlane::profile_from_yaml(root);
  if (kind != "scenario") return;
  kvlane::InputFiles files({"scenarios"});
  kvlane::scenario_from_yaml(root, files);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // "--set ..." in the first line is an override of the rest.
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string_view change;
  constexpr std::string_view kSet = "--set ";
  if (text.substr(0, kSet.size()) == kSet) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    change = text.substr(kSet.size(), end - kSet.size());
    text.remove_prefix(end + 1);
  }
  try {
    kvlane::YamlNode root = kvlane::parse_yaml(text, "fuzz.yaml");
    if (!change.empty()) kvlane::apply_override(root, std::string(change));
    read_as_its_kind(root);
  } catch (const kvlane::InputError&) {
  }
  return 0;
}
