#pragma once
// A scenario file as a Scenario: keys and units checked, presets read, and the checks that need
// more than one value (sim/scenario/scenario_checks.h). Throws InputError, the first in the order
// of the file.

#include <string>
#include <vector>

#include "sim/scenario/input_files.h"
#include "sim/scenario/scenario.h"

namespace kvlane {

// `overrides`: texts of `--set a.b.c=value`. `preset_dirs`: folders with hardware/, models/,
// profiles/ and workloads/; the command line knows them, nothing here reads the environment.
Scenario read_scenario(const std::string& path, const std::vector<std::string>& overrides,
                       const std::vector<std::string>& preset_dirs);

// The same from a tree that is in memory already; `files` remembers what is read.
Scenario scenario_from_yaml(const YamlNode& root, InputFiles& files);

// The table of a scenario, for `kvlane schema`.
const MappingBase& scenario_mapping();

}  // namespace kvlane
