#pragma once
// What ships and what a file is: the lists of `kvlane list`, and `kvlane validate` for any kind of
// file that a reader here takes.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/input_files.h"

namespace kvlane {

struct CatalogEntry {
  std::string name;         // as a scenario names it
  std::string kind;         // scenario, study, gpu, nic, instance type, model, profile, workload
  std::string description;  // one line
  std::string path;
};

std::vector<CatalogEntry> list_models(const std::vector<std::string>& preset_dirs);
std::vector<CatalogEntry> list_hardware(const std::vector<std::string>& preset_dirs);
std::vector<CatalogEntry> list_profiles(const std::vector<std::string>& preset_dirs);
std::vector<CatalogEntry> list_workloads(const std::vector<std::string>& preset_dirs);
// Scenarios and studies of all other folders, by path below the preset folder, without ".yaml".
std::vector<CatalogEntry> list_scenarios(const std::vector<std::string>& preset_dirs);

// The kind of a YAML file: its key `kind`, else told by the keys that only one kind has.
std::string kind_of(const YamlNode& root);

// Reads the file with the reader of its kind, and returns the kind. Throws InputError. A study is
// checked by `check_study`, since studies lie above scenarios.
using StudyCheck = std::function<void(const std::string& path, InputFiles& files)>;
std::string validate_file(const std::string& path, const std::vector<std::string>& preset_dirs,
                          const StudyCheck& check_study);

// Tables by the kind of file, for `kvlane schema [KIND]`; the first is the scenario's.
std::vector<std::pair<std::string, const MappingBase*>> list_schemas();

}  // namespace kvlane
