#pragma once
// Where readers get their files from. Presets are found by name in the folders of `preset_dir`
// (scenarios/hardware, models, profiles, workloads); a name with a slash or a known extension is a
// path, relative to the file that names it. Every file read is remembered with its SHA-256.

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/schema.h"

namespace kvlane {

class InputFiles {
 public:
  // Preset folders in the order of search; each has hardware/, models/, profiles/, workloads/.
  explicit InputFiles(std::vector<std::string> preset_dirs)
      : preset_dirs_(std::move(preset_dirs)) {}

  // The whole file; `named_at` is where its name stands (the file itself when it came from the
  // command line).
  std::string read(const std::string& path, const SourcePlace& named_at);
  // The same for a file that is only searched: it does not count as an input.
  std::string peek(const std::string& path, const SourcePlace& named_at) const;
  // The path of a preset `folder`/`name`.yaml (or .json for models), or of a file. InputError
  // names the nearest preset.
  std::string find(const PlacedText& name, std::string_view folder) const;
  // Paths of the presets of a folder, in order of name.
  std::vector<std::string> list(std::string_view folder) const;
  const std::vector<InputFile>& inputs() const { return inputs_; }

 private:
  // How results name the file: the user's own as typed, a preset as scenarios/models/x.yaml
  // wherever the program lies.
  std::string recorded(const std::string& path) const;

  std::vector<std::string> preset_dirs_;
  std::vector<InputFile> inputs_;
};

// True for "a/b", "x.yaml", "x.json", "x.kvsel.gz": not the name of a preset.
bool looks_like_path(std::string_view name);

}  // namespace kvlane
