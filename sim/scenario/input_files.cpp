#include "sim/scenario/input_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sim/scenario/sha256.h"

namespace kvlane {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 3> kPresetExtensions{".yaml", ".yml", ".json"};

// Beyond any trace or result; /proc has files without an end.
constexpr std::size_t kLargestInput = std::size_t{512} << 20;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

bool looks_like_path(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return true;
  const auto ends_with = [&](std::string_view end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  };
  return ends_with(".gz") ||
         std::any_of(kPresetExtensions.begin(), kPresetExtensions.end(), ends_with);
}

std::string InputFiles::peek(const std::string& path, const SourcePlace& named_at) const {
  if (!is_file(path))
    throw InputError(named_at, "`" + path + "` is not a file", "expected a file that can be read");
  std::ifstream stream(path, std::ios::binary);
  std::string bytes;
  std::vector<char> piece(std::size_t{1} << 16);
  // read() turns an error of the file system into a state; an iterator of the buffer would throw.
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    bytes.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (bytes.size() > kLargestInput)
      throw InputError(named_at, fmt::format("`{}` is larger than {} bytes", path, kLargestInput),
                       "expected a smaller file");
  }
  if (!stream.eof())
    throw InputError(named_at, "`" + path + "` cannot be read", "expected a file that can be read");
  return bytes;
}

std::string InputFiles::read(const std::string& path, const SourcePlace& named_at) {
  std::string bytes = peek(path, named_at);
  const bool known = std::any_of(inputs_.begin(), inputs_.end(),
                                 [&](const InputFile& f) { return f.opened == path; });
  if (!known) inputs_.push_back({recorded(path), sha256_hex(bytes), path});
  return bytes;
}

std::string InputFiles::recorded(const std::string& path) const {
  for (const std::string& dir : preset_dirs_) {
    const std::string above = fs::path(dir).parent_path().generic_string() + "/";
    if (path.rfind(fs::path(dir).generic_string() + "/", 0) == 0 && path.rfind(above, 0) == 0)
      return path.substr(above.size());
  }
  return path;
}

std::string InputFiles::find(const PlacedText& name, std::string_view folder) const {
  if (looks_like_path(name.text)) {
    const fs::path written(name.text);
    // An override has no folder: its paths are relative to the working directory.
    const fs::path base =
        name.place.file.rfind("--", 0) == 0 ? fs::path() : fs::path(name.place.file).parent_path();
    const fs::path path = (written.is_absolute() ? written : base / written).lexically_normal();
    if (!is_file(path))
      throw InputError(name.place, "`" + name.text + "` is not a file",
                       "expected a file (looked for " + path.generic_string() + ")");
    return path.generic_string();
  }
  for (const std::string& dir : preset_dirs_)
    for (const std::string_view extension : kPresetExtensions) {
      const fs::path path = fs::path(dir) / folder / (name.text + std::string(extension));
      if (is_file(path)) return path.generic_string();
    }
  // Presets are files in lower case; people write L20 and Llama-3.1-8B.
  const std::string wanted = lower_case(name.text);
  std::vector<std::string> names;
  for (const std::string& path : list(folder)) {
    if (lower_case(fs::path(path).stem().string()) == wanted) return path;
    names.push_back(fs::path(path).stem().string());
  }
  throw InputError(name.place,
                   "no `" + name.text + "` among the presets in " + std::string(folder) + "/",
                   "expected a preset" + nearest_hint(name.text, names) + " or the path of a file");
}

std::vector<std::string> InputFiles::list(std::string_view folder) const {
  std::vector<std::string> paths;
  for (const std::string& dir : preset_dirs_) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(dir) / folder, error)) {
      const std::string extension = entry.path().extension().string();
      if (is_file(entry.path()) && std::find(kPresetExtensions.begin(), kPresetExtensions.end(),
                                             extension) != kPresetExtensions.end())
        paths.push_back(entry.path().generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace kvlane
