#pragma once
// A model from a Hugging Face config.json, as real files are: nested text parts, absent and null
// fields, older names, patterns of windowed, recurrent and full layers. What cannot be understood
// is an InputError that names the field; nothing is taken from a default model. What the file does
// not say and has to be assumed is listed in ModelSpec::assumptions.

#include <string>
#include <string_view>

#include "sim/kv/model_spec.h"

namespace kvlane {

ModelSpec read_hf_config(std::string_view text, const std::string& name);

}  // namespace kvlane
