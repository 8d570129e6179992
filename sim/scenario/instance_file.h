#pragma once
// Instance types of cloud providers (scenarios/hardware/*-instances.yaml, kind: instance_types):
// which GPUs, NIC and memory a name stands for, and what it costs.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/input_files.h"

namespace kvlane {

struct InstanceType {
  std::string name;
  std::string description;
  PlacedText gpu;  // preset
  std::int64_t gpus = 1;
  PlacedText nic;  // preset
  Bandwidth rate;  // baseline of the port: what it holds for ever
  std::optional<Bandwidth> burst;
  std::optional<Bytes> host_memory;
  std::optional<double> price;                // USD an hour, on demand
  std::map<std::string, SourceNote> sources;  // of the values that carry their own
  SourceNote file_source;                     // of the others
  const SourceNote& source_of(const std::string& key) const {
    const auto own = sources.find(key);
    return own != sources.end() ? own->second : file_source;
  }
};

struct InstanceFile {
  std::string kind;
  std::string name;
  std::string description;
  SourceNote source;  // of every value that carries none
  std::vector<InstanceType> types;
};

const Mapping<InstanceFile>& instance_file_mapping();
InstanceFile read_instance_file(const YamlNode& root);

// The type with this name in any file of the preset folders. Only its file counts as an input.
InstanceType find_instance_type(const PlacedText& name, InputFiles& files);

}  // namespace kvlane
