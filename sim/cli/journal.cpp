#include "sim/cli/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/base/rng.h"
#include "sim/report/json_writer.h"
#include "sim/scenario/sha256.h"

namespace kvlane::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kKeyDigits = 32;
constexpr std::size_t kTextAt = kKeyDigits + 1 + 16 + 1;  // key, blank, checksum, blank

bool parse_hex(std::string_view digits, std::uint64_t& value) {
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

// The key of a line that is whole, by its checksum.
bool parse_line(std::string_view line, JournalKey& key) {
  std::uint64_t sum = 0;
  return line.size() > kTextAt && line[kKeyDigits] == ' ' && line[kTextAt - 1] == ' ' &&
         parse_hex(line.substr(0, 16), key[0]) && parse_hex(line.substr(16, 16), key[1]) &&
         parse_hex(line.substr(kKeyDigits + 1, 16), sum) && sum == fnv1a(line.substr(kTextAt));
}

// A kill while the first line was written leaves a part of it.
bool is_journal(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return false;
  std::string head(kJournalHead.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return in.eof() ? kJournalHead.rfind(head, 0) == 0 : head == kJournalHead;
}

}  // namespace

JournalKey journal_key(std::string_view made_from) {
  const std::string hex = sha256_hex(made_from);
  JournalKey key{};
  parse_hex(std::string_view(hex).substr(0, 16), key[0]);
  parse_hex(std::string_view(hex).substr(16, 16), key[1]);
  return key;
}

std::vector<std::string> journals_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("journal", 0) == 0 && entry.path().extension() == ".jsonl" &&
        is_journal(entry.path()))
      paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Journal::Journal(const std::string& folder, const std::string& name, const std::string& made_from) {
  const std::string study = kJournalHead + made_from;
  std::vector<std::string> paths{(fs::path(folder) / name).string()};
  std::error_code error;
  if (fs::exists(fs::symlink_status(paths[0], error)) && !is_journal(paths[0])) {
    throw InputError({paths[0]}, "a file that is no journal of a sweep",
                     "expected another --out, or the file moved away");
  }
  for (std::string& path : journals_in(folder)) {
    if (path != paths[0]) paths.push_back(std::move(path));
  }
  try {
    for (const std::string& path : paths) {
      const bool own = files_.empty();
      const int file = own ? ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)
                           : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) {
        throw InputError({path}, fmt::format("cannot be opened: {}", std::strerror(errno)),
                         "expected a folder that can be written");
      }
      files_.push_back(file);
      if (own && ::flock(file, LOCK_EX | LOCK_NB) != 0) {
        throw InputError({path}, "another sweep writes here",
                         "expected to be alone, or --shard with a number of its own");
      }
      const std::int64_t whole =
          index_file(static_cast<std::uint32_t>(files_.size() - 1), path, study);
      if (!own) continue;
      end_ = whole;
      // What a kill cut off makes room for the next line.
      if (::ftruncate(file, end_) != 0)
        throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
      if (end_ == 0) {
        const std::string head = study + '\n';
        if (::write(file, head.data(), head.size()) != static_cast<ssize_t>(head.size()))
          throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
        end_ = static_cast<std::int64_t>(head.size());
      }
    }
  } catch (...) {
    close_all();
    throw;
  }
}

Journal::~Journal() { close_all(); }

void Journal::close_all() {
  for (const int file : files_) ::close(file);
  files_.clear();
}

// Returns where the last whole line ends.
std::int64_t Journal::index_file(std::uint32_t file, const std::string& path,
                                 const std::string& study) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  std::int64_t offset = 0;
  while (std::getline(in, line) && !in.eof()) {
    if (offset == 0) {
      if (line != study) {
        throw InputError({path}, "the folder holds another study, or this one with other inputs",
                         "expected --force to start anew, or another --out");
      }
    } else {
      JournalKey key{};
      if (parse_line(line, key)) {
        places_[key] = {file, offset + static_cast<std::int64_t>(kTextAt),
                        static_cast<std::int64_t>(line.size() - kTextAt)};
      }
    }
    offset += static_cast<std::int64_t>(line.size()) + 1;
  }
  return offset;
}

bool Journal::has(const JournalKey& key) const {
  const std::lock_guard lock(mutex_);
  return places_.find(key) != places_.end();
}

std::size_t Journal::size() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

std::string Journal::text(const JournalKey& key) const {
  Place place{};
  {
    const std::lock_guard lock(mutex_);
    const auto it = places_.find(key);
    KVLANE_CHECK(it != places_.end(), "a run that is not in the journal");
    place = it->second;
  }
  std::string quoted(static_cast<std::size_t>(place.length), '\0');
  if (::pread(files_[place.file], quoted.data(), quoted.size(), place.offset) != place.length)
    throw std::runtime_error("the journal of the sweep has changed while it was read");
  return nlohmann::json::parse(quoted).get<std::string>();
}

void Journal::append(const JournalKey& key, std::string_view text) {
  const std::string quoted = json_quoted(text);
  const std::string line =
      fmt::format("{:016x}{:016x} {:016x} {}\n", key[0], key[1], fnv1a(quoted), quoted);
  const std::lock_guard lock(mutex_);
  if (::write(files_[0], line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::runtime_error(fmt::format("the journal of the sweep: {}", std::strerror(errno)));
  places_[key] = {0, end_ + static_cast<std::int64_t>(kTextAt),
                  static_cast<std::int64_t>(quoted.size())};
  end_ += static_cast<std::int64_t>(line.size());
}

}  // namespace kvlane::cli
