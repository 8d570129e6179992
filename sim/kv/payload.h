#pragma once
// Bytes of quantised KV and of the metadata that KV selection needs on the decode side.

#include <cstdint>

#include "sim/base/units.h"
#include "sim/kv/kv_layout.h"

namespace kvlane {

// int4: one 16-bit scale and one 16-bit minimum for every kInt4Group elements. The group size is
// assumed: published 4-bit KV formats use 32 to 128.
inline constexpr std::int64_t kInt4Group = 64;
// HACK keeps the first tokens of a prompt in 16 bit (arXiv 2502.03589).
inline constexpr std::int64_t kHackSinkTokens = 4;

// Bytes an element of a payload of `bits` (16, 8 or 4): 2, 1, 0.5 + 4/kInt4Group.
double payload_bytes_per_element(int bits);

// Bytes an element of HACK's quantised part: 2/8 + (4 + s)/partition. Scale and minimum in bf16,
// and a sum of s bytes: 1 where it fits (partition <= 64), else 2.
double hack_bytes_per_element(std::int64_t partition);

// Tokens that HACK leaves in 16 bit of a sequence of `tokens`: the sinks, and the open partition
// (tokens - sinks) mod partition.
std::int64_t hack_open_tokens(std::int64_t tokens, std::int64_t partition);

// A sequence of `tokens` with `elements_per_token` values of K and V. Rounded up to a byte.
Bytes hack_bytes(std::int64_t tokens, std::int64_t elements_per_token, std::int64_t partition);
// The same as a share of 16-bit KV.
double hack_share(std::int64_t tokens, std::int64_t partition);

// Selection metadata, bytes a (row, kv head). InfiniGen: the share r of the key's channels in 16
// bit. HATA: a 128-bit code and a 16-bit norm.
double infinigen_row_bytes(std::int64_t key_width, double partial_ratio);
inline constexpr double kHataRowBytes = 16 + 2;

// Of a layer that selects; 0 for a dense one. Rounded up to a byte.
Bytes metadata_bytes(const LayerLayout& layer, double row_bytes);

}  // namespace kvlane
