#pragma once
// A YAML document as an ordered tree in which every key and value knows its place. Built from
// yaml-cpp's parser events, since its Node type forgets duplicates and the order of keys. Only the
// plain subset that a scenario needs: anchors, aliases, merge keys, tags, tabs in the indentation
// and more than one document are refused with their place.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/input_error.h"

namespace kvlane {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, list, mapping };
  Kind kind = Kind::null;
  bool quoted = false;  // scalar written in quotes or as a block: text, never a number
  std::string text;     // scalar
  SourcePlace place;
  std::vector<YamlNode> items;                       // list
  std::vector<YamlEntry> entries;                    // mapping, in the order of the file
  const YamlNode* find(std::string_view key) const;  // value of a key, or null
  YamlNode* find(std::string_view key);
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

inline constexpr std::size_t kYamlMaxBytes = std::size_t{16} << 20;
inline constexpr std::size_t kYamlMaxNodes = 400'000;
inline constexpr int kYamlMaxDepth = 32;

// `name` is the file in error messages. Throws InputError; an empty document is an error too.
YamlNode parse_yaml(std::string_view text, const std::string& name);

// What a node is, for "found ..." in messages: "`abc`", "a list", "a mapping", "nothing".
std::string describe(const YamlNode& node);

// The node that a path of keys and list positions leads to, or the last one on the way that
// exists: the place for an error about a value that may have been left out.
struct YamlStep {
  YamlStep(const char* k) : key(k) {}                    // NOLINT: reads like a path
  YamlStep(std::string k) : key(std::move(k)) {}         // NOLINT
  YamlStep(std::size_t i) : index(i), is_index(true) {}  // NOLINT
  std::string key;
  std::size_t index = 0;
  bool is_index = false;
};
const YamlNode& node_at(const YamlNode& root, const std::vector<YamlStep>& path);

}  // namespace kvlane
