#pragma once
// Where things are in a sequence's store:
//
//   [kv head] sinks K [sinks][head_dim], sinks V, open block K [partition][head_dim], open block V
//   [partition][kv head] of K, then of V: codes, mins, scales, sums of codes
//
// so that the quantised tokens of all heads are one run of bytes that grows at its end. Of K, mins
// and scales are [head_dim], sums [groups][tokens]; of V, mins and scales are [groups][tokens],
// sums [head_dim]; groups = head_dim / partition.
//
// Codes are squares of partition x partition, one a group: `outputs` (of K tokens, of V channels)
// times `terms` that a product sums up (of K channels, of V tokens). A square is cut into tiles of
// 16 outputs, a tile into units of 64 bytes: byte 4 * output + term % 4 of a unit holds 8 / bits
// codes, the lowest bits those of terms 0..3, the next those of terms 4..7, and so on. One load
// gives a vector's int32 lanes four terms of their output for an integer dot product, and shift and
// mask the next four.

#include <cstddef>

#include "kernels/hack/kernel.h"

namespace kvlane::kernels {

inline constexpr std::size_t kHackTile = 16;  // outputs of a tile
inline constexpr std::size_t kHackUnit = 64;  // bytes

struct HackLayout {
  explicit HackLayout(const HackShape& shape)
      : bits(static_cast<std::size_t>(shape.bits)),
        partition(static_cast<std::size_t>(shape.partition)),
        sinks(static_cast<std::size_t>(shape.sinks)),
        kv_heads(static_cast<std::size_t>(shape.kv_heads)),
        head_dim(static_cast<std::size_t>(shape.head_dim)),
        groups(head_dim / partition),
        sum_bytes(partition * ((std::size_t{1} << bits) - 1) < 256 ? 1 : 2),
        sink_values(sinks * head_dim * 2),
        open_keys(2 * sink_values),
        open_values(open_keys + partition * head_dim * 2),
        exact_head(open_values + partition * head_dim * 2),
        square(partition * partition * bits / 8),
        mins(groups * square),
        scales(mins + head_dim * 2),
        sums(scales + head_dim * 2),
        values(sums + head_dim * sum_bytes),
        quantised_head(2 * values) {}

  std::size_t bits, partition, sinks, kv_heads, head_dim, groups;
  std::size_t sum_bytes;
  // Offsets in the 16-bit part of a head (K of the sinks is at 0), and the bytes of it.
  std::size_t sink_values, open_keys, open_values, exact_head;
  std::size_t square;  // bytes of the codes of a group
  // Offsets in a head's K or V of a partition (codes are at 0); where V begins; bytes of both.
  std::size_t mins, scales, sums, values, quantised_head;

  std::size_t exact(std::size_t head) const { return head * exact_head; }
  std::size_t quantised(std::size_t part, std::size_t head) const {
    return kv_heads * exact_head + (part * kv_heads + head) * quantised_head;
  }
  std::size_t tile_bytes() const { return kHackTile * partition * bits / 8; }

  // The byte of a code within its square, and how far it is shifted up in it.
  struct Place {
    std::size_t byte, shift;
  };
  Place code(std::size_t output, std::size_t term) const {
    const std::size_t planes = 8 / bits, unit = term / (4 * planes);
    return {
        output / kHackTile * tile_bytes() + unit * kHackUnit + output % kHackTile * 4 + term % 4,
        term / 4 % planes * bits};
  }
};

}  // namespace kvlane::kernels
