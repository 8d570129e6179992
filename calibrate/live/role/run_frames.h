#pragma once
// Bodies of the session's frames about a run.

#include <optional>
#include <span>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/role/role.h"

namespace kvlane::live {

std::vector<std::byte> encode_prepare(const RunNumber& number);
std::optional<RunNumber> decode_prepare(std::span<const std::byte> body);

std::vector<std::byte> encode_places(std::span<const RegionPlace> places);
// At most `most` of them, each with sizes that make sense.
std::optional<std::vector<RegionPlace>> decode_places(std::span<const std::byte> body,
                                                      std::size_t most);

// Time zero by the receiver's steady clock, and the regions of the sender.
struct StartFrame {
  std::int64_t zero_ns = 0;
  std::int64_t peer_minus_own_ns = 0;  // the receiver's clock against the sender's
  std::int64_t loop_zero_ns = 0;       // of the sender's loop, by the sender's clock
  std::vector<RegionPlace> places;
};
std::vector<std::byte> encode_start(const StartFrame& start);
std::optional<StartFrame> decode_start(std::span<const std::byte> body, std::size_t most);

}  // namespace kvlane::live
