#pragma once
// Files of the tests, and config.json texts with one field changed.

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/input_error.h"
#include "sim/scenario/hf_config.h"

namespace kvlane::test {

inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string fixture(const std::string& name) {
  return slurp("tests/unit/hf/" + name + ".json");
}

// A complete small model, to change.
inline nlohmann::json small_config() {
  return {{"model_type", "llama"},           {"hidden_size", 256},
          {"intermediate_size", 512},        {"num_hidden_layers", 6},
          {"num_attention_heads", 8},        {"num_key_value_heads", 2},
          {"max_position_embeddings", 4096}, {"vocab_size", 1000},
          {"torch_dtype", "bfloat16"},       {"tie_word_embeddings", false}};
}

inline ModelSpec read(const nlohmann::json& config) {
  return read_hf_config(config.dump(), "config.json");
}

// The message of the error, or "accepted".
inline std::string refusal(const nlohmann::json& config) {
  try {
    read(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

inline bool assumes(const ModelSpec& model, const std::string& part) {
  for (const std::string& sentence : model.assumptions) {
    if (sentence.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace kvlane::test
