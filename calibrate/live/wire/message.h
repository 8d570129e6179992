#pragma once
// The port's Message as bytes, and the fragments of an operation.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibrate/live/wire/bytes.h"
#include "sim/port/transport.h"

namespace kvlane::live {

// A message and what its spans point to.
struct OwnedMessage {
  Message message;
  std::vector<BlockRun> runs;
  std::vector<RowGroup> groups;
  std::vector<std::uint32_t> index;
};

// Filled up with zeros to `least` bytes: what the port says that it takes on the wire.
std::vector<std::byte> encode_message(const Message& message, std::int64_t least = 0);
// False where the bytes are none. Values are as they came: whoever uses them checks them.
bool decode_message(std::span<const std::byte> bytes, OwnedMessage& message);

// Fragments of an operation, with the epoch of each region. Pieces of one length at multiples of it
// are written as a base and an index of 4 bytes each (a list of 15,000 rows is 60 KB, not 360 KB).
struct EpochFragment {
  Fragment fragment;
  std::uint32_t epoch = 0;
};
void encode_fragments(std::span<const EpochFragment> fragments, Writer& out);
// False where the bytes are none or the pieces add up to something else than `bytes`.
bool decode_fragments(Reader& in, std::int64_t bytes, std::vector<EpochFragment>& fragments);

}  // namespace kvlane::live
