#pragma once
// Study files: `kind: study`, the scenario, the grid and the questions.

#include <string>

#include "sim/scenario/input_files.h"
#include "sim/study/study.h"

namespace kvlane {

// What `kvlane schema study` prints and the reader is made from.
const MappingBase& study_mapping();

// Throws InputError. The scenario is only looked up here; its keys are checked when a point is
// read.
Study read_study(const std::string& path, InputFiles& files);

}  // namespace kvlane
