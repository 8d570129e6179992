#pragma once
// NICs: presets in scenarios/hardware (kind: nic), and inline mappings that change a preset.

#include <map>
#include <string>

#include "sim/net/nic_spec.h"
#include "sim/scenario/input_files.h"

namespace kvlane {

struct NicFile {
  std::string kind;
  std::string description;
  NicSpec spec;
  std::map<std::string, SourceNote> sources;  // by key
};

// The keys of a NIC file. In a preset each number carries its source.
const Mapping<NicFile>& nic_file_mapping();
// The same keys inline: {base: erdma, rate: 25 Gbps}.
const Mapping<NicFile>& nic_changes_mapping();

NicFile read_nic_file(const YamlNode& root);
// A preset name, a path, or an inline mapping with `base`.
NicFile read_nic(const YamlNode& node, InputFiles& files);

}  // namespace kvlane
