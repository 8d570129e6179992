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

namespace kvlane::cli {

namespace fs = std::filesystem;

void check_can_write(const std::string& path, Replace replace) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    throw InputError({path}, "the output file is a folder", "expected the name of a file");
  }
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

OutputFile::OutputFile(std::string path, Replace replace) : path_(std::move(path)) {
  check_can_write(path_, replace);
  // The process in the name: two runs that write the same file do not meet in one temporary.
  temporary_ = fmt::format("{}.{}.part", path_, ::getpid());
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    throw InputError({path_}, fmt::format("cannot be written: {}", std::strerror(errno)),
                     "expected a place that can be written");
  }
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  stream_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void OutputFile::write(std::string_view text) {
  stream_.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void OutputFile::commit() {
  stream_.close();
  if (stream_.fail()) {
    throw std::runtime_error(fmt::format("{}: not written to the end (is the disk full?)", path_));
  }
  fs::rename(temporary_, path_);
  temporary_.clear();
}

void write_whole_file(const std::string& path, std::string_view text, Replace replace) {
  OutputFile file(path, replace);
  file.write(text);
  file.commit();
}

void make_output_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path)) {
    throw InputError({path}, fmt::format("the folder cannot be made: {}", error.message()),
                     "expected --out with a place that can be written");
  }
}

}  // namespace kvlane::cli
