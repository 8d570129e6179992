#pragma once
// Which kind of layer stands where: the patterns that config.json files use.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/scenario/hf_object.h"

namespace kvlane {

enum class HfLayer : std::uint8_t {
  full,
  windowed,   // sliding_window
  chunked,    // attention_chunk_size
  delta,      // gated delta rule: linear_* fields
  lightning,  // one head_dim x head_dim state a head
  conv,       // short convolution
  mamba,
  ffn_only  // no attention at all
};

struct HfLayers {
  std::vector<HfLayer> kinds;
  std::vector<std::int64_t> windows;  // tokens, by layer; 0 where there is none
};

// `layers`: how many; `max_position`: 0 when not known. Adds sentences to `assumptions`.
HfLayers plan_layers(const HfObject& config, std::int64_t layers, std::int64_t max_position,
                     const std::string& model_type, std::vector<std::string>& assumptions);

// Constant state of a recurrent layer, and the parameters of its projections.
struct RecurrentForm {
  Bytes state{0};
  std::int64_t parameters = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};
RecurrentForm recurrent_form(const HfObject& config, HfLayer kind, std::int64_t hidden,
                             std::int64_t heads, std::int64_t head_dim, std::int64_t element_bytes,
                             std::vector<std::string>& assumptions);

// Layers that only draft (multi-token prediction); they are not part of the count.
std::int64_t draft_layers(const HfObject& config);

// Bytes of a type name (`bfloat16`, `torch.float16`, `float8_e4m3fn`), 0: not known.
std::int64_t bytes_of_type(std::string name);

// Adds a sentence once.
void assume(std::vector<std::string>& assumptions, std::string sentence);

}  // namespace kvlane
