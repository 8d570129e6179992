#pragma once
// A scenario as it is written: keys, types and ranges are checked, names are not yet looked up.
// Pointers to nodes are valid while the tree lives.

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/gpu_file.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/schema.h"

namespace kvlane {

struct InstanceText {
  std::string name;
  Role role = Role::prefill;
  std::int64_t count = 1;
  std::optional<PlacedText> type;
  const YamlNode* gpu = nullptr;
  std::optional<std::int64_t> gpus;
  int tp = 1;
  const YamlNode* nic = nullptr;
  std::optional<Bytes> host_memory;
  std::optional<double> price;
};

struct SwitchText {
  std::string name;
};

struct NetworkText {
  std::vector<SwitchText> switches;
  std::vector<Cable> links;
  std::vector<LinkEvent> events;
};

struct WorkloadText {
  std::string kind, name, description;  // of a preset
  std::vector<Prompt> prompts;
  std::int64_t output_tokens = 64;
};

struct SelectionText {
  SelectionOptions options;
  std::optional<PlacedText> profile;
  std::optional<PlacedText> trace;
  std::vector<PlacedText> profile_traces;
};

struct ScenarioText {
  std::string kind = "scenario";
  std::string name, description;
  PlacedText model;
  std::vector<InstanceText> instances;
  NetworkText network;
  const YamlNode* workload = nullptr;
  ServingOptions serving;
  SelectionText selection;
  std::vector<StrategyOptions> strategies;
  std::int64_t seed = 1;
  std::int64_t seeds = 1;
  OutputOptions outputs;
};

const Mapping<GpuFile>& gpu_changes_mapping();  // inline: {base: l20, memory: 24 GB}
const Mapping<ScenarioText>& scenario_text_mapping();
const Mapping<WorkloadText>& workload_mapping();       // inline
const Mapping<WorkloadText>& workload_file_mapping();  // scenarios/workloads/*.yaml

}  // namespace kvlane
