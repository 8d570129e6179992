#pragma once
// Tables of other projects and tools as samples (sim/gpu/sample.h). One function a format; what a
// format's cells mean, with its source, stands in its own file.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

struct ImportOptions {
  std::string machine;  // for formats that do not name one; else empty
  std::string source;   // empty: the format's own, if it has one
  std::string licence;
};

struct Imported {
  std::vector<Sample> samples;
  // Rows or cells that hold nothing to import, by reason: never dropped in silence.
  std::map<std::string, std::int64_t> skipped;
};

struct ImportFormat {
  std::string name;
  std::string about;          // one line for --help
  bool names_machine = true;  // false: ImportOptions has to (with source and licence)
  // `path` tells what the text does not (the machine of aiconfigurator's file names). Throws
  // InputError with file, line and column.
  std::function<void(const std::string& path, std::string_view text, const ImportOptions& options,
                     Imported& out)>
      read;
};

const std::vector<ImportFormat>& import_formats();
// Null for an unknown name.
const ImportFormat* find_format(std::string_view name);

// The hardware file's `name` of a GPU that somebody calls `gpu` ("a100_sxm", "H100", "RTXPRO6000"),
// or the same word with '-' for blanks and '_' where there is no such file.
std::string machine_name(std::string_view gpu);

}  // namespace kvlane::calibrate
