#pragma once
// HACK (arXiv 2502.03589; the layout of its repository): KV in 2, 4 or 8 bits and attention on the
// quantised values. K is quantised per channel over `partition` tokens, V per token over
// `partition` channels, asymmetric: value = min + scale * code, code in [0, 2^bits - 1] to nearest,
// min and scale in bf16. Here min is rounded down and scale up, so that no value falls outside and
// every error is at most scale / 2. The first `sinks` tokens and the tokens after the last whole
// partition ("open block") stay in 16 bit.
//
// q . k_t = sum_c (q_c scale_c) code_tc + sum_c q_c min_c. The scale goes into the query, which is
// quantised to 8 bits over each group of `partition` channels: a_c = q_c scale_c ~ offset + step *
// u_c with u_c in [-128, 127], step = (max - min) / 255, offset = min + 128 step; then
//   q . k_t ~ step * sum_c u_c code_tc + offset * sum_c code_tc + sum_c q_c min_c,
// integers in the first sum; the second is stored, not computed in every step. P V is alike with
// the scale of V in the probabilities; there the sums run over the tokens of a partition, a channel
// at a time. The softmax divides by the sum of the exact probabilities.
// Bytes an element: bits/8 + (4 + s)/partition, s = 1 where a sum fits a byte, else 2.
//
// layout.h says where things are in a sequence's store.

#include <cstddef>
#include <cstdint>

#include "kernels/common/cpu.h"
#include "kernels/common/format.h"

namespace kvlane::kernels {

struct HackShape {
  int bits = 2;        // 2, 4, 8
  int partition = 64;  // 32, 64, 128; divides head_dim
  int sinks = 4;       // 0 to 1024
  int kv_heads = 0;
  int head_dim = 0;              // 64, 128, 256
  Format format = Format::bf16;  // of the 16-bit parts and of the query: bf16 or fp16
  int capacity = 0;              // tokens that a sequence may have
};
const char* problem(const HackShape& shape);

// Tokens of a sequence of n that are quantised: whole partitions after the sinks.
int hack_quantised_tokens(const HackShape& shape, int tokens);
// Bytes of one sequence's KV in memory, all kv heads, up to `capacity`; and what of them is sent
// for n tokens.
std::size_t hack_sequence_bytes(const HackShape& shape);
std::size_t hack_sent_bytes(const HackShape& shape, int tokens);

// Adds tokens [first, first + tokens) of one layer to `store`: quantises the partitions that become
// whole, keeps the rest in 16 bit. Every backend writes the same bytes: a code is
// clamp(round_to_even((x - min) / scale)) in IEEE fp32, scale = round_up((max - min) / (2^bits -
// 1)). Values that share a scale become NaN (min NaN, scale and codes 0) where one of them is NaN
// or infinite, or where their range is beyond fp32.
struct HackAppend {
  HackShape shape;
  int sequences = 0;
  const std::int32_t* first = nullptr;   // [sequences]: tokens already there
  const std::int32_t* tokens = nullptr;  // [sequences]: to add
  const void* keys = nullptr;    // [all new tokens, sequence by sequence][kv_heads][head_dim]
  const void* values = nullptr;  // alike
  void* store = nullptr;         // [sequences][hack_sequence_bytes], 64-byte aligned
};

// No tokens: the output is 0. A NaN or infinite logit makes the output of that query head NaN, a
// NaN value that of its channels.
struct HackAttention {
  HackShape shape;
  int sequences = 0;
  int query_heads = 0;
  const void* query = nullptr;  // [sequences][query_heads][head_dim], format
  const void* store = nullptr;
  const std::int32_t* kv_tokens = nullptr;  // [sequences]
  float scale = 1;
  void* out = nullptr;  // [sequences][query_heads][head_dim], format
};

const char* problem(const HackAppend& args);
const char* problem(const HackAttention& args);

namespace ref {
void hack_append(const HackAppend& args);
// On the quantised operands: query and probabilities in 8 bits, integer sums, corrections.
void hack_attention(const HackAttention& args);
// On dequantised values: the same KV, query and probabilities exact.
void hack_dequantise_attention(const HackAttention& args);
}  // namespace ref
namespace cpu {
void hack_append(const HackAppend& args, Cpu& cpu);
void hack_attention(const HackAttention& args, Cpu& cpu);
// Dequantises in registers, then fp32 products: what HACK is compared with.
void hack_dequantise_attention(const HackAttention& args, Cpu& cpu);
}  // namespace cpu

}  // namespace kvlane::kernels
