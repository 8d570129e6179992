#include "sim/scenario/catalog.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>

#include "sim/kv/model_spec.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/instance_file.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/profile_file.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/scenario_text.h"
#include "sim/select/replay.h"

namespace kvlane {

namespace fs = std::filesystem;

namespace {

// A key that only one kind of file has, in the order of asking.
constexpr std::array<std::pair<const char*, const char*>, 6> kTellingKeys{{
    {"strategies", "scenario"},
    {"instances", "scenario"},
    {"grid", "study"},
    {"peak_flops", "gpu"},
    {"fits", "profile"},
    {"hidden", "model"},
}};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string stem(const std::string& path) { return fs::path(path).stem().string(); }

std::string text_of(const YamlNode& root, std::string_view key) {
  const YamlNode* node = root.find(key);
  return node != nullptr ? node->text : std::string();
}

std::string describe_model(const ModelSpec& model) {
  const KvFootprint kv = kv_footprint(model, false);
  return fmt::format("{:.2f} B parameters, {} layers, {:.0f} B of KV a token, {} tokens at most",
                     static_cast<double>(parameter_count(model)) * 1e-9, model.layer_count(),
                     kv.growing_per_token + kv.windowed_per_token, model.max_position);
}

std::string describe_gpu(const GpuSpec& gpu) {
  return fmt::format("{:.0f} GB, {:.0f} GB/s, {:.1f} dense 16-bit TFLOPS",
                     static_cast<double>(gpu.memory.count()) * 1e-9, gpu.memory_bandwidth * 1e-9,
                     gpu.peak_flops * 1e-12);
}

std::string describe_type(const InstanceType& type) {
  std::string text = fmt::format("{} x {}, {} {}", type.gpus, type.gpu.text,
                                 format_rate(type.rate.bits_per_sec()), type.nic.text);
  if (type.price) text += fmt::format(", {} USD/h", *type.price);
  return text;
}

YamlNode parse_file(const std::string& path, const InputFiles& files) {
  return parse_yaml(files.peek(path, {path}), path);
}

void add_hardware(const std::string& path, const InputFiles& files,
                  std::vector<CatalogEntry>& entries) {
  const YamlNode root = parse_file(path, files);
  const std::string kind = kind_of(root);
  if (kind == "gpu") entries.push_back({stem(path), kind, describe_gpu(gpu_from_yaml(root)), path});
  if (kind == "nic") entries.push_back({stem(path), kind, read_nic_file(root).description, path});
  if (kind == "instance_types")
    for (const InstanceType& type : read_instance_file(root).types)
      entries.push_back({type.name, "instance type", describe_type(type), path});
}

}  // namespace

std::string kind_of(const YamlNode& root) {
  if (const YamlNode* kind = root.find("kind"); kind != nullptr && !kind->text.empty())
    return kind->text;
  for (const auto& [key, kind] : kTellingKeys)
    if (root.find(key) != nullptr) return kind;
  throw InputError(root.place, "a file of no known kind",
                   "expected a scenario, study, gpu, nic, instance_types, model, profile or "
                   "workload; the key `kind` says which");
}

std::vector<CatalogEntry> list_models(const std::vector<std::string>& preset_dirs) {
  const InputFiles files(preset_dirs);
  std::vector<CatalogEntry> entries;
  for (const std::string& path : files.list("models"))
    entries.push_back(
        {stem(path), "model", describe_model(read_model(files.peek(path, {path}), path)), path});
  return entries;
}

std::vector<CatalogEntry> list_hardware(const std::vector<std::string>& preset_dirs) {
  const InputFiles files(preset_dirs);
  std::vector<CatalogEntry> entries;
  for (const std::string& path : files.list("hardware")) add_hardware(path, files, entries);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const CatalogEntry& a, const CatalogEntry& b) { return a.kind < b.kind; });
  return entries;
}

std::vector<CatalogEntry> list_profiles(const std::vector<std::string>& preset_dirs) {
  const InputFiles files(preset_dirs);
  std::vector<CatalogEntry> entries;
  for (const std::string& path : files.list("profiles"))
    entries.push_back(
        {stem(path), "profile", profile_from_yaml(parse_file(path, files)).source, path});
  return entries;
}

std::vector<CatalogEntry> list_workloads(const std::vector<std::string>& preset_dirs) {
  const InputFiles files(preset_dirs);
  std::vector<CatalogEntry> entries;
  for (const std::string& path : files.list("workloads"))
    entries.push_back(
        {stem(path), "workload", text_of(parse_file(path, files), "description"), path});
  return entries;
}

std::vector<CatalogEntry> list_scenarios(const std::vector<std::string>& preset_dirs) {
  const InputFiles files(preset_dirs);
  std::vector<CatalogEntry> entries;
  for (const std::string& dir : preset_dirs) {
    std::vector<std::string> folders;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir, error))
      if (entry.is_directory(error)) folders.push_back(entry.path().filename().string());
    std::sort(folders.begin(), folders.end());
    for (const std::string& folder : folders)
      for (const std::string& path : InputFiles({dir}).list(folder)) {
        if (ends_with(path, ".json")) continue;
        const YamlNode root = parse_file(path, files);
        const std::string kind = kind_of(root);
        if (kind != "scenario" && kind != "study") continue;
        entries.push_back({folder + "/" + stem(path), kind, text_of(root, "description"), path});
      }
  }
  return entries;
}

std::string validate_file(const std::string& path, const std::vector<std::string>& preset_dirs,
                          const StudyCheck& check_study) {
  InputFiles files(preset_dirs);
  const std::string text = files.read(path, {path});
  if (ends_with(path, ".gz")) {
    read_selection_trace(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
                         path);
    return "trace";
  }
  if (ends_with(path, ".json")) {
    read_model(text, path);
    return "model";
  }
  const YamlNode root = parse_yaml(text, path);
  std::string kind = kind_of(root);
  if (kind == "scenario") {
    scenario_from_yaml(root, files);
  } else if (kind == "study") {
    if (check_study) check_study(path, files);
  } else if (kind == "gpu") {
    gpu_from_yaml(root);
  } else if (kind == "nic") {
    read_nic_file(root);
  } else if (kind == "instance_types") {
    for (const InstanceType& type : read_instance_file(root).types) {
      files.find(type.gpu, "hardware");
      files.find(type.nic, "hardware");
    }
  } else if (kind == "model") {
    model_from_yaml(root);
  } else if (kind == "profile") {
    profile_from_yaml(root);
  } else if (kind == "workload") {
    WorkloadText workload;
    workload_file_mapping().read(root, workload);
  } else {
    static const std::vector<std::string> kinds{"scenario", "study", "nic", "instance_types",
                                                "workload"};
    throw InputError(node_at(root, {"kind"}).place, "the kind `" + kind + "`",
                     "expected one of " + join_words(kinds) + nearest_hint(kind, kinds));
  }
  return kind;
}

std::vector<std::pair<std::string, const MappingBase*>> list_schemas() {
  return {{"scenario", &scenario_mapping()},
          {"model", &model_mapping()},
          {"gpu", &gpu_mapping()},
          {"nic", &nic_file_mapping()},
          {"instance_types", &instance_file_mapping()},
          {"profile", &profile_mapping()},
          {"workload", &workload_file_mapping()}};
}

}  // namespace kvlane
