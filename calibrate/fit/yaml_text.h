#pragma once
// Pieces of the YAML files that a fit writes.

#include <fmt/format.h>

#include <string>

#include "sim/gpu/gpu_spec.h"

namespace kvlane::calibrate {

// In quotes, on one line: the readers take no others.
inline std::string yaml_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

// A number with where it comes from.
inline std::string yaml_noted(const std::string& value, Source source, const std::string& from) {
  return fmt::format("{{value: {}, source: {}, from: {}}}", value, to_string(source),
                     yaml_quoted(from));
}

}  // namespace kvlane::calibrate
