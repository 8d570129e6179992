#pragma once
// Every known table in a folder that holds a folder a data set.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "calibrate/import/import.h"
#include "sim/gpu/gpu_spec.h"

namespace kvlane::calibrate {

struct FolderImport {
  std::vector<Sample> samples;                    // files in order of name
  std::map<std::string, std::int64_t> skipped;    // by reason
  std::map<std::string, std::int64_t> set_aside;  // by rule (artefacts.h)
  std::vector<std::string> missing;               // data sets that are not there
};

// Throws InputError for a table that cannot be read. No file of a known data set: no samples.
FolderImport import_folder(const std::filesystem::path& folder, const std::vector<GpuSpec>& known);

}  // namespace kvlane::calibrate
