#include "calibrate/live/doctor/machine_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace kvlane::live::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = std::size_t{256} << 10U;  // of a file: /proc/mounts of a full host
constexpr std::size_t kLongestLine = 200;
constexpr std::size_t kMostNames = 256;

// ASCII that prints; a terminal is not to obey what a file says.
std::string printable(std::string_view text) {
  std::string plain(text.substr(0, kLongestLine));
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return plain;
}

}  // namespace

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlank) + 1 - first));
}

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

MachineFiles::MachineFiles(std::string root, const std::string& search) : root_(std::move(root)) {
  std::istringstream folders(search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && folder.front() == '/') search_.push_back(folder);
  }
  // Not in every user's path; where ip and tc are.
  search_.insert(search_.end(), {"/usr/sbin", "/sbin", "/usr/local/sbin"});
}

std::string MachineFiles::text(const std::string& path) const {
  std::error_code error;
  const fs::path file = root_ + path;
  if (!fs::exists(file, error) || fs::is_directory(file, error)) return "";
  std::ifstream stream(file, std::ios::binary);
  std::string content(kLongest, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return content;
}

std::string MachineFiles::line(const std::string& path) const {
  const std::string content = text(path);
  return printable(trimmed(std::string_view(content).substr(0, content.find('\n'))));
}

std::optional<std::int64_t> MachineFiles::number(const std::string& path) const {
  return whole_number(line(path));
}

std::string MachineFiles::value(const std::string& path, std::string_view key) const {
  std::istringstream lines(text(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find_first_of(":=");
    if (end != std::string::npos && trimmed(std::string_view(line).substr(0, end)) == key) {
      return printable(trimmed(std::string_view(line).substr(end + 1)));
    }
  }
  return "";
}

bool MachineFiles::exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root_ + path, error);
}

std::vector<std::string> MachineFiles::names(const std::string& folder) const {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(root_ + folder, error), end; !error && at != end;
       at.increment(error)) {
    if (found.size() == kMostNames) break;
    const std::string name = at->path().filename().string();
    if (name == printable(name)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool MachineFiles::program(const std::string& name) const {
  return std::any_of(search_.begin(), search_.end(), [&](const std::string& folder) {
    std::error_code error;
    const fs::file_status status = fs::status(root_ + folder + '/' + name, error);
    constexpr fs::perms kRun =
        fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    return fs::is_regular_file(status) && (status.permissions() & kRun) != fs::perms::none;
  });
}

bool MachineFiles::library(const std::string& name) const {
  constexpr const char* kFolders[] = {"/usr/lib",
                                      "/usr/lib64",
                                      "/lib",
                                      "/lib64",
                                      "/usr/local/lib",
                                      "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu",
                                      "/usr/local/nvidia/lib64",
                                      "/usr/local/cuda/compat"};
  return std::any_of(std::begin(kFolders), std::end(kFolders),
                     [&](const char* folder) { return exists(std::string(folder) + '/' + name); });
}

}  // namespace kvlane::live::doctor
