// The reader of Hugging Face config.json files, and what is derived from a model that it accepts.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/input_error.h"
#include "sim/kv/model_spec.h"
#include "sim/scenario/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kvlane::ModelSpec model = kvlane::read_model(
        std::string_view(reinterpret_cast<const char*>(data), size), "config.json");
    kvlane::kv_footprint(model, false);
    kvlane::parameter_count(model);
  } catch (const kvlane::InputError&) {
  }
  return 0;
}
