#pragma once
// Where the keys of a JSON text stand, since the parser's values do not know; and keys that stand
// twice, which it drops in silence.

#include <map>
#include <string>
#include <string_view>

#include "sim/base/input_error.h"

namespace kvlane {

// By path: "a.b", "list[3].a"; the place is the key's, of an item of a list its first character.
using JsonPlaces = std::map<std::string, SourcePlace, std::less<>>;

// `text` must be valid JSON. Throws InputError for a key that an object has already.
JsonPlaces json_places(std::string_view text, const std::string& file);

}  // namespace kvlane
