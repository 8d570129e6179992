#include "sim/cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sim/base/input_error.h"
#include "sim/cli/unfinished.h"

namespace kvlane::cli {

namespace fs = std::filesystem;

namespace {

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

}  // namespace

void check_can_write(const std::string& path, Replace replace) {
  constexpr const char* kPlain = "expected the name of a file";
  std::error_code error;
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) throw InputError({path}, "the output file is a folder", kPlain);
  if (link && !fs::exists(status))
    throw InputError({path}, "the output file is a link that leads nowhere", kPlain);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw InputError({path}, "the output is a device, pipe or socket", kPlain);
  if (fs::exists(status) && replace == Replace::refuse) {
    throw InputError({path}, "the output file is there already",
                     "expected --force to replace it, or another name");
  }
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw InputError({path}, fmt::format("the folder {} is not there", folder.string()),
                     "expected a folder that exists");
  }
}

void check_outputs_differ(const std::vector<std::string>& outputs,
                          const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const std::string& input : inputs) {
      if (same_file(outputs[i], input))
        throw InputError({outputs[i]}, "the output is an input too", "expected another name");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (same_file(outputs[i], outputs[j]))
        throw InputError({outputs[i]}, "two outputs with this name", "expected a name for each");
    }
  }
}

OutputFile::OutputFile(std::string path, Replace replace) : path_(std::move(path)) {
  check_can_write(path_, replace);
  std::error_code error;
  if (fs::is_symlink(path_, error)) path_ = fs::canonical(path_).string();
  // The process in the name: two runs that write the same file do not meet in one temporary.
  temporary_ = fmt::format("{}.{}.part", path_, ::getpid());
  slot_ = note_unfinished(temporary_);
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    const int number = errno;
    forget_unfinished(slot_);
    throw InputError({path_}, fmt::format("cannot be written: {}", std::strerror(number)),
                     "expected a place that can be written");
  }
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  stream_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
  forget_unfinished(slot_);
}

void OutputFile::write(std::string_view text) {
  stream_.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void OutputFile::close() {
  if (stream_.is_open()) stream_.close();
  if (stream_.fail()) {
    throw std::runtime_error(fmt::format("{}: not written to the end (is the disk full?)", path_));
  }
}

void OutputFile::commit() {
  close();
  fs::rename(temporary_, path_);
  temporary_.clear();
  forget_unfinished(slot_);
}

void commit_all(const std::vector<std::unique_ptr<OutputFile>>& files) {
  for (const auto& file : files) file->close();
  for (const auto& file : files) file->commit();
}

void write_whole_file(const std::string& path, std::string_view text, Replace replace) {
  OutputFile file(path, replace);
  file.write(text);
  file.commit();
}

OutputFolder::OutputFolder(const std::string& path) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(path).lexically_normal(); !fs::exists(at, error);) {
    missing.push_back(at);
    if (!at.has_parent_path() || at.parent_path() == at) break;
    at = at.parent_path();
  }
  fs::create_directories(path, error);
  const bool made = fs::is_directory(path);
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    std::error_code ignored;
    if (it->has_filename() && fs::is_directory(*it, ignored))
      made_.push_back({it->string(), note_unfinished(it->string())});
  }
  if (made) return;
  for (; !made_.empty(); made_.pop_back()) {
    ::rmdir(made_.back().path.c_str());
    forget_unfinished(made_.back().slot);
  }
  throw InputError({path},
                   fmt::format("the folder cannot be made: {}",
                               error ? error.message() : "something else has its name"),
                   "expected --out with a place that can be written");
}

OutputFolder::~OutputFolder() {
  for (; !made_.empty(); made_.pop_back()) {
    ::rmdir(made_.back().path.c_str());  // stays when somebody has put something there
    forget_unfinished(made_.back().slot);
  }
}

void OutputFolder::keep() {
  for (const Made& made : made_) forget_unfinished(made.slot);
  made_.clear();
}

}  // namespace kvlane::cli
