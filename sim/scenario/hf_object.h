#pragma once
// Checked look-ups in a config.json: aliases of a field, null as absent, ranges, errors that name
// the field with the part it stands in.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/json_places.h"

namespace kvlane {

using Json = nlohmann::json;
using Aliases = std::vector<const char*>;

class HfObject {
 public:
  // `path` names the part in messages, "" at the top; `places` those of the whole file.
  HfObject(const Json& json, const JsonPlaces& places, std::string file, std::string path)
      : json_(&json), places_(&places), file_(std::move(file)), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  SourcePlace place() const { return {file_, 0, 0}; }
  const JsonPlaces& places() const { return *places_; }
  const Json& json() const { return *json_; }

  // The first alias that is present and not null, with its name. "a.b" looks inside `a`.
  struct Found {
    std::string key;
    const Json* value = nullptr;
    explicit operator bool() const { return value != nullptr; }
  };
  Found find(const Aliases& keys) const;
  HfObject part(const Found& found) const {
    return {*found.value, *places_, file_, path_.empty() ? found.key : path_ + '.' + found.key};
  }

  // Numbers may be written as 4096.0. Absent or null: nothing.
  std::optional<std::int64_t> integer(const Aliases& keys, std::int64_t low,
                                      std::int64_t high) const;
  std::int64_t required(const Aliases& keys, std::int64_t low, std::int64_t high) const;
  std::optional<bool> boolean(const char* key) const;
  std::optional<std::string> text(const Aliases& keys) const;
  // A list; nothing where the field is absent, null or not a list.
  Found list(const Aliases& keys) const;
  std::int64_t item(const Found& list, std::size_t i, std::int64_t low, std::int64_t high) const;

  [[noreturn]] void fail(const std::string& key, const std::string& found,
                         const std::string& expected) const;
  [[noreturn]] void missing(const std::string& key, const std::string& expected) const;
  // "`text_config.num_hidden_layers`"
  std::string name_of(const std::string& key) const;

 private:
  std::int64_t to_integer(const std::string& key, const Json& value, std::int64_t low,
                          std::int64_t high) const;

  // Of a key in this part; the file where it is not there.
  SourcePlace place_of(const std::string& key) const;

  const Json* json_;
  const JsonPlaces* places_;
  std::string file_;
  std::string path_;
};

// A value as a message shows it: short.
std::string shown(const Json& value);

}  // namespace kvlane
