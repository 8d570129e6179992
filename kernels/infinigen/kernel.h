#pragma once
// InfiniGen selection (arXiv 2406.19707, sections 4.2 and 4.3): keys and queries are turned by an
// orthogonal skew a kv head, of which a few channels are kept ("partial"); their logits say which
// tokens matter.

#include <cstdint>

#include "kernels/common/cpu.h"
#include "kernels/common/format.h"

namespace kvlane::kernels {

// partial[t][h][c] = sum over i of x[t][h][i] * skew[kv head of h][i][channels[kv head][c]].
struct InfinigenProject {
  int tokens = 0;
  int heads = 0;     // of x
  int kv_heads = 0;  // heads is a multiple of it
  int head_dim = 0;
  int channels_kept = 0;  // d' <= head_dim
  Format format = Format::bf16;
  const void* x = nullptr;                 // [tokens][heads][head_dim]
  const float* skew = nullptr;             // [kv_heads][head_dim][head_dim]
  const std::int32_t* channels = nullptr;  // [kv_heads][channels_kept]
  void* partial = nullptr;                 // [tokens][heads][channels_kept], format
};

// Scores and how many tokens to take. With x = scale * q.k the partial logits of a query head over
// its sequence: score of a kv head's token = sum over its group of softmax(x). Tokens to take: a
// query head wants those with x > max(x) - alpha; the mean of these counts over all sequences and
// query heads, rounded down, at least 1 and at most `cap` (and at most kv_tokens) is the number for
// every row. One query head a kv head: the published algorithm.
struct InfinigenScore {
  int sequences = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int channels_kept = 0;
  int width = 0;  // tokens that a row of keys and scores holds
  Format format = Format::bf16;
  const std::int32_t* kv_tokens = nullptr;  // [sequences], each at most width
  const void* query = nullptr;              // [sequences][query_heads][channels_kept]
  const void* keys = nullptr;               // [sequences][kv_heads][width][channels_kept]
  float scale = 1;
  float alpha = 4;
  int cap = 0;                   // 0: no cap
  float* scores = nullptr;       // [sequences][kv_heads][width]; past kv_tokens left alone
  std::int32_t* take = nullptr;  // one number
};

const char* problem(const InfinigenProject& args);
const char* problem(const InfinigenScore& args);

namespace ref {
void infinigen_project(const InfinigenProject& args);
void infinigen_score(const InfinigenScore& args);
}  // namespace ref
namespace cpu {
void infinigen_project(const InfinigenProject& args, Cpu& cpu);
void infinigen_score(const InfinigenScore& args, Cpu& cpu);
}  // namespace cpu

}  // namespace kvlane::kernels
