#pragma once
// HATA selection (arXiv 2506.02572): 128-bit hash codes of queries and keys, and scores by Hamming
// distance. Per kv head, a group of G query heads: score = (G - sum of hamming / 64) * |key|, exact
// in fp32, so that all backends agree bit for bit; without norms |key| is 1.

#include <cstdint>

#include "kernels/common/cpu.h"
#include "kernels/common/format.h"

namespace kvlane::kernels {

struct HataCode {
  std::uint64_t word[2];  // bit j of word i: sign of column 64 i + j is positive
};

// Codes of vectors: bit j is 1 where x . weights[:, j] > 0 (fp32 sums). A NaN gives 0.
struct HataEncode {
  int tokens = 0;
  int heads = 0;     // of x
  int kv_heads = 0;  // of weights; heads is a multiple of it
  int head_dim = 0;
  Format format = Format::bf16;    // of x
  const void* x = nullptr;         // [tokens][heads][head_dim]
  const float* weights = nullptr;  // [kv_heads][head_dim][128]
  HataCode* codes = nullptr;       // [tokens][heads]
  std::uint16_t* norms = nullptr;  // [tokens][heads] fp16 Euclidean norms; null: not wanted
};

struct HataScore {
  int sequences = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int width = 0;                             // tokens that a row of codes, norms and scores holds
  const std::int32_t* kv_tokens = nullptr;   // [sequences], each at most width
  const HataCode* query_codes = nullptr;     // [sequences][query_heads]
  const HataCode* key_codes = nullptr;       // [sequences][kv_heads][width]
  const std::uint16_t* key_norms = nullptr;  // fp16, [sequences][kv_heads][width]; null: 1
  float* scores = nullptr;  // [sequences][kv_heads][width]; past kv_tokens left alone
};

const char* problem(const HataEncode& args);
const char* problem(const HataScore& args);

namespace ref {
void hata_encode(const HataEncode& args);
void hata_score(const HataScore& args);
}  // namespace ref
namespace cpu {
void hata_encode(const HataEncode& args, Cpu& cpu);
void hata_score(const HataScore& args, Cpu& cpu);
}  // namespace cpu

}  // namespace kvlane::kernels
