#include "sim/scenario/scenario_file.h"

#include <algorithm>
#include <span>

#include "sim/scenario/gpu_file.h"
#include "sim/scenario/instance_file.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/overrides.h"
#include "sim/scenario/profile_file.h"
#include "sim/scenario/scenario_checks.h"
#include "sim/scenario/scenario_text.h"

namespace kvlane {

namespace {

GpuSpec read_gpu_node(const YamlNode& node, InputFiles& files) {
  const YamlNode* base = node.kind == YamlNode::Kind::mapping ? node.find("base") : &node;
  GpuFile unused;
  if (base == nullptr) gpu_changes_mapping().read(node, unused);  // says that `base` is missing
  const std::string path = files.find({read_text(*base), base->place}, "hardware");
  GpuFile file;
  file.spec = gpu_from_yaml(parse_yaml(files.read(path, base->place), path));
  if (base == &node) return std::move(file.spec);
  if (const YamlNode* rows = node.find("all_reduce"))
    throw InputError(rows->place, "all_reduce in an inline GPU", "expected a GPU file of its own");
  gpu_changes_mapping().read(node, file);
  // What the scenario changes without a source is an assumption, whatever the file says.
  for (const YamlEntry& entry : node.entries) {
    if (entry.key.text == "base" || entry.value.kind == YamlNode::Kind::mapping) continue;
    file.spec.source[entry.key.text] = Source::assumed;
    file.spec.source_text[entry.key.text] = "the scenario";
  }
  return std::move(file.spec);
}

InstanceGroup make_instance(const InstanceText& text, const YamlNode& node, InputFiles& files) {
  InstanceGroup group;
  group.name = text.name;
  group.role = text.role;
  group.count = text.count;
  group.tp = text.tp;
  std::optional<InstanceType> type;
  if (text.type) {
    type = find_instance_type(*text.type, files);
    group.type = type->name;
  }
  const auto need = [&](const char* key) {
    throw InputError(node.place, fmt::format("instance {} has neither type nor {}", text.name, key),
                     fmt::format("expected one of the keys type and {}", key));
  };
  const auto as_node = [](const PlacedText& name) {
    YamlNode n;
    n.kind = YamlNode::Kind::scalar;
    n.text = name.text;
    n.place = name.place;
    return n;
  };
  if (text.gpu == nullptr && !type) need("gpu");
  group.gpu = read_gpu_node(text.gpu != nullptr ? *text.gpu : as_node(type->gpu), files);
  group.gpus = text.gpus.value_or(type ? type->gpus : 1);
  if (text.nic == nullptr && !type) need("nic");
  NicFile nic = read_nic(text.nic != nullptr ? *text.nic : as_node(type->nic), files);
  for (const auto& [key, note] : nic.sources) group.nic_source[key] = note.source;
  // The type knows the port's rate; a NIC that is written here with a rate knows better.
  const bool own_rate = text.nic != nullptr && text.nic->kind == YamlNode::Kind::mapping &&
                        text.nic->find("rate") != nullptr;
  if (type && !own_rate) {
    nic.spec.rate = type->rate;
    group.nic_source["rate"] = type->source_of("rate").source;
  }
  if (nic.spec.rate.bits_per_sec() == 0)
    throw InputError(node_at(node, {"nic"}).place, "the NIC " + nic.spec.name + " without a rate",
                     "expected nic: {base: " + nic.spec.name + ", rate: 25 Gbps}, or a type");
  group.nic = nic.spec;
  if (text.host_memory || (type && type->host_memory))
    group.host_memory = text.host_memory ? *text.host_memory : *type->host_memory;
  if (text.price || (type && type->price))
    group.price_per_hour = text.price ? text.price : type->price;
  return group;
}

// Without a network of its own: everything on one switch that never blocks.
void make_network(const NetworkText& text, Scenario& scenario) {
  for (const SwitchText& s : text.switches) scenario.switches.push_back(s.name);
  scenario.cables = text.links;
  scenario.link_events = text.events;
  if (!text.links.empty()) return;
  std::string name = "switch";
  const auto taken = [&] {
    return std::any_of(
        scenario.instances.begin(), scenario.instances.end(), [&](const InstanceGroup& g) {
          const auto names = instance_names(g);
          return g.name == name || std::find(names.begin(), names.end(), name) != names.end();
        });
  };
  while (taken()) name += "-0";
  scenario.switches.push_back(name);
  for (const InstanceGroup& group : scenario.instances) {
    Cable cable;
    cable.from = group.name;
    cable.to = name;
    scenario.cables.push_back(std::move(cable));
  }
}

WorkloadText read_workload(const YamlNode& node, InputFiles& files) {
  WorkloadText workload;
  if (node.kind == YamlNode::Kind::mapping) {
    workload_mapping().read(node, workload);
    return workload;
  }
  const PlacedText name{read_text(node), node.place};
  const std::string path = files.find(name, "workloads");
  workload_file_mapping().read(parse_yaml(files.read(path, name.place), path), workload);
  return workload;
}

SelectionTrace read_trace(const PlacedText& name, InputFiles& files) {
  const std::string path = files.find(name, "workloads");
  const std::string bytes = files.read(path, name.place);
  return read_selection_trace(
      std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), path);
}

// The profile that was measured on this model, else SmolLM2's; selection_source() tells which.
SelectionSpec choose_profile(const SelectionText& text, const PlacedText& model_text,
                             const std::string& model, InputFiles& files) {
  if (text.profile) return read_profile(*text.profile, files);
  for (const std::string& path : files.list("profiles")) {
    SelectionSpec spec = read_profile(files.peek(path, model_text.place), path);
    if (selection_source(spec, Selector::infinigen, model).source_class == Source::assumed)
      continue;
    files.read(path, model_text.place);
    return spec;
  }
  return read_profile(PlacedText{"smollm2", model_text.place}, files);
}

void read_selection(const SelectionText& text, const PlacedText& model_text, InputFiles& files,
                    Scenario& scenario) {
  scenario.selection = text.options;
  scenario.selection.spec = choose_profile(text, model_text, scenario.model.name, files);
  if (text.trace) scenario.selection.trace = read_trace(*text.trace, files);
  for (const PlacedText& name : text.profile_traces)
    scenario.selection.profile_traces.push_back(read_trace(name, files));
}

}  // namespace

Scenario scenario_from_yaml(const YamlNode& root, InputFiles& files) {
  ScenarioText text;
  scenario_text_mapping().read(root, text);
  Scenario scenario;
  scenario.name = text.name;
  scenario.description = text.description;
  const std::string model_path = files.find(text.model, "models");
  scenario.model = read_model(files.read(model_path, text.model.place), model_path);
  require_times(scenario.model, text.model.place);
  for (std::size_t i = 0; i < text.instances.size(); ++i)
    scenario.instances.push_back(
        make_instance(text.instances[i], node_at(root, {"instances", i}), files));
  make_network(text.network, scenario);
  const WorkloadText workload = read_workload(*text.workload, files);
  scenario.prompts = workload.prompts;
  scenario.output_tokens = workload.output_tokens;
  scenario.serving = text.serving;
  read_selection(text.selection, text.model, files, scenario);
  scenario.strategies = text.strategies;
  scenario.seed = static_cast<std::uint64_t>(text.seed);
  scenario.seeds = text.seeds;
  scenario.outputs = text.outputs;
  check_scenario(root, scenario);
  scenario.inputs = files.inputs();
  return scenario;
}

Scenario read_scenario(const std::string& path, const std::vector<std::string>& overrides,
                       const std::vector<std::string>& preset_dirs) {
  InputFiles files(preset_dirs);
  YamlNode root = parse_yaml(files.read(path, {path}), path);
  for (const std::string& text : overrides) apply_override(root, text);
  return scenario_from_yaml(root, files);
}

const MappingBase& scenario_mapping() { return scenario_text_mapping(); }

std::vector<std::string> instance_names(const InstanceGroup& group) {
  if (group.count == 1) return {group.name};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < group.count; ++i)
    names.push_back(fmt::format("{}-{}", group.name, i));
  return names;
}

std::vector<std::string> end_names(const Scenario& scenario, const std::string& end) {
  for (const InstanceGroup& group : scenario.instances)
    if (group.name == end) return instance_names(group);
  return {end};
}

}  // namespace kvlane
