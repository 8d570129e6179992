#include "calibrate/validate/reference_model.h"

#include <cctype>
#include <utility>

#include "sim/scenario/model_file.h"

namespace kvlane::calibrate {
namespace {

// A part of the published name, without case and separators, and the preset.
constexpr std::pair<const char*, const char*> kPresets[] = {
    {"llama3.18b", "llama-3.1-8b"},   {"llama38b", "llama-3.1-8b"},
    {"llama3.170b", "llama-3.1-70b"}, {"llama370b", "llama-3.1-70b"},
    {"qwen332b", "qwen3-32b"},        {"qwen38b", "qwen3-8b"},
    {"llama27b", "llama-2-7b"},       {"llama270b", "llama-2-70b"},
    {"llama7b", "llama-2-7b"},        {"llama70b", "llama-2-70b"},
    {"mistral7b", "mistral-7b-v0.3"},
};

std::string simplified(const std::string& name) {
  std::string simple;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (c == '.' || std::isalnum(letter) != 0) simple += static_cast<char>(std::tolower(letter));
  }
  return simple;
}

}  // namespace

const ModelSpec* ReferenceModels::find(const std::string& name) {
  const auto known = models_.find(name);
  if (known != models_.end()) return known->second ? &*known->second : nullptr;
  auto& model = models_[name];
  const std::string simple = simplified(name);
  for (const auto& [part, preset] : kPresets) {
    if (simple.find(part) == std::string::npos) continue;
    const PlacedText placed{preset, {preset, 0, 0}};
    const std::string path = files_.find(placed, "models");
    model = read_model(files_.read(path, placed.place), path);
    return &*model;
  }
  return nullptr;
}

}  // namespace kvlane::calibrate
