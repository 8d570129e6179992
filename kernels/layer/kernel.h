#pragma once
// What a transformer layer needs beyond matrix products and attention. Values of `format` in and
// out, computed in fp32 (ref: double). Sizes may be 0. In and out may be the same tensor, except of
// `embedding`.

#include <cstdint>

#include "kernels/common/cpu.h"
#include "kernels/common/format.h"

namespace kvlane::kernels {

// out = x / sqrt(mean(x^2) + epsilon) * weight (Zhang & Sennrich, arXiv 1910.07467); with
// `one_plus_weight` the factor is 1 + weight (Gemma).
struct RmsNorm {
  int rows = 0, width = 0;
  Format format = Format::bf16;
  const void* x = nullptr;       // [rows][width]
  const void* weight = nullptr;  // [width], format
  float epsilon = 1e-6f;
  bool one_plus_weight = false;
  void* out = nullptr;
};

// Rotary embedding (arXiv 2104.09864) on the first `rotary_dim` of each head, pairs (i, i +
// rotary_dim / 2) as Llama's checkpoints have them. Angle = position * frequency[i], with
// frequencies of rope_frequencies().
struct Rope {
  int tokens = 0, heads = 0, head_dim = 0, rotary_dim = 0;
  Format format = Format::bf16;
  const void* x = nullptr;                  // [tokens][heads][head_dim]
  const std::int32_t* positions = nullptr;  // [tokens]
  const float* frequencies = nullptr;       // [rotary_dim / 2]
  void* out = nullptr;
};

// theta^(-2 i / rotary_dim), then scaled: `linear` divides by factor; `llama3` (Llama 3.1) divides
// long wavelengths by factor, keeps short ones, and blends between low_frequency_factor and
// high_frequency_factor of original_context.
enum class RopeScaling : std::uint8_t { none, linear, llama3 };
struct RopeFrequencies {
  int rotary_dim = 0;
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;
  double original_context = 8192;
};
const char* problem(const RopeFrequencies& args);
void rope_frequencies(const RopeFrequencies& args, float* out);  // [rotary_dim / 2]

// out = activation(gate) * up: SiLU (SwiGLU) or tanh-GELU (GeGLU), arXiv 2002.05202.
enum class Activation : std::uint8_t { silu, gelu_tanh };
struct GatedUnit {
  int rows = 0, width = 0;
  Format format = Format::bf16;
  Activation activation = Activation::silu;
  const void* gate = nullptr;  // [rows][width]
  const void* up = nullptr;    // [rows][width]
  void* out = nullptr;         // [rows][width]
};

// out[i] = table[ids[i]] * scale (Gemma scales by sqrt(width)).
struct Embedding {
  int tokens = 0, width = 0, vocabulary = 0;
  Format format = Format::bf16;
  const std::int32_t* ids = nullptr;  // [tokens], each in [0, vocabulary)
  const void* table = nullptr;        // [vocabulary][width]
  float scale = 1;
  void* out = nullptr;  // [tokens][width]
};

struct Add {
  std::int64_t elements = 0;
  Format format = Format::bf16;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
};

const char* problem(const RmsNorm& args);
const char* problem(const Rope& args);
const char* problem(const GatedUnit& args);
const char* problem(const Embedding& args);
const char* problem(const Add& args);

namespace ref {
void rms_norm(const RmsNorm& args);
void rope(const Rope& args);
void gated_unit(const GatedUnit& args);
void embedding(const Embedding& args);
void add(const Add& args);
}  // namespace ref
namespace cpu {
void rms_norm(const RmsNorm& args, Cpu& cpu);
void rope(const Rope& args, Cpu& cpu);
void gated_unit(const GatedUnit& args, Cpu& cpu);
void embedding(const Embedding& args, Cpu& cpu);
void add(const Add& args, Cpu& cpu);
}  // namespace cpu

}  // namespace kvlane::kernels
