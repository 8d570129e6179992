#pragma once
// `kvlane show model`: the KV size of a model with its derivation (layers x (K + V) x bytes = ...).

#include <cstdint>
#include <string>

#include "sim/kv/model_spec.h"

namespace kvlane {

// `tokens`: length to size, 0 in the text for 1k, 8k and 32k alone.
std::string show_model_text(const ModelSpec& model, std::int64_t tokens);
// One object, keys as docs/contracts.md gives them. max_prompt_tokens is null where the file says
// nothing. kv_bytes respects every layer's own window; where windows differ, it is less than
// min(tokens, kv_window) x windowed.
std::string show_model_json(const ModelSpec& model, std::int64_t tokens);

}  // namespace kvlane
