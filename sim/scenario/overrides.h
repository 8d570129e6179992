#pragma once
// `--set a.b.c=value`: changes to the tree of a scenario before it is checked, so that an override
// is held to the same rules as the file. List items are named by position or by their `name`;
// mappings that the file leaves out are made on the way. A preset named by a word (`nic: erdma`)
// becomes {base: erdma, ...} when a key below it is set.

#include <string>
#include <vector>

#include "sim/scenario/yaml_tree.h"

namespace kvlane {

// Errors stand at `ORIGIN:1:N`, N the column in the text of the override.
void apply_override(YamlNode& root, const std::string& text, const std::string& origin = "--set");

// The way that a key `a.b.c` takes through the tree, list items by position: two spellings of one
// place give the same. InputError for an item that is not there.
std::string resolve_key(const YamlNode& root, const std::string& key);

}  // namespace kvlane
