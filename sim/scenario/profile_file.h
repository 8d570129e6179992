#pragma once
// Selection statistics of a model: scenarios/profiles/*.yaml (analysis/fit_profiles.py writes
// them).

#include <string>

#include "sim/scenario/input_files.h"
#include "sim/scenario/schema.h"
#include "sim/select/selection_spec.h"

namespace kvlane {

const Mapping<SelectionSpec>& profile_mapping();

// The statistics in a parsed file, checked: the weights of a layer add up to 1, layers ascend and
// exist, every selector has a prompt length once.
SelectionSpec profile_from_yaml(const YamlNode& root);
SelectionSpec read_profile(std::string_view text, const std::string& name);
// A preset name or a path.
SelectionSpec read_profile(const PlacedText& name, InputFiles& files);

}  // namespace kvlane
