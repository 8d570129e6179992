#pragma once
// What a sweep has finished, so that it continues where it was killed: one line a run, appended
// with one write, `key checksum "text"`. A key is the hash of all that a run is made from; a line
// that was cut off or damaged is as if it were not there. Memory holds where a text lies, not the
// text.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kvlane::cli {

// How a journal starts; what it is made from follows.
inline const std::string kJournalHead = "kvlane.journal/1 ";

// The journals of a sweep in a folder: plain files that start as one, in order of name.
std::vector<std::string> journals_in(const std::string& folder);

using JournalKey = std::array<std::uint64_t, 2>;

// The first 128 bits of the SHA-256 of `made_from`.
JournalKey journal_key(std::string_view made_from);

class Journal {
 public:
  // Reads every journal of the folder, and appends to `name` there. `made_from` ends the first line
  // of a new file; a journal of something else is an InputError, as is a file of that name that is
  // no journal, or a second process on the same file.
  Journal(const std::string& folder, const std::string& name, const std::string& made_from);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool has(const JournalKey& key) const;
  std::string text(const JournalKey& key) const;  // the key must be there
  void append(const JournalKey& key, std::string_view text);
  std::size_t size() const;

 private:
  struct Place {
    std::uint32_t file;
    std::int64_t offset;  // of the quoted text
    std::int64_t length;
  };
  std::int64_t index_file(std::uint32_t file, const std::string& path, const std::string& study);
  void close_all();

  mutable std::mutex mutex_;
  std::vector<int> files_;  // descriptors; the first one is appended to
  std::int64_t end_ = 0;
  std::map<JournalKey, Place> places_;
};

}  // namespace kvlane::cli
