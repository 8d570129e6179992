#pragma once
// A study against its scenario: its keys lead somewhere, each to a place of its own, and the
// scenario is right with every value of every axis. Said before anything runs.

#include <string>
#include <vector>

#include "sim/study/study.h"

namespace kvlane {

// `set`: overrides of every point, before the grid's own. Throws InputError, at the study's line
// for what the study says.
void check_study(const Study& study, const std::vector<std::string>& set,
                 const std::vector<std::string>& preset_dirs);

}  // namespace kvlane
