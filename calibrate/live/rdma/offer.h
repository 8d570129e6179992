#pragma once
// What one end tells the other before their queue pairs meet. Comes from the network: parse_offer
// refuses what no kvlane would have sent, agree() what does not fit to our own end.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/rdma/gid.h"

namespace kvlane::live {

struct QueuePairOffer {
  std::uint32_t number = 0, first_psn = 0;  // 24 bits each
};

// A piece of the peer's memory that we may write, by address as its NIC knows it.
struct MemoryOffer {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t key = 0;
};

struct RdmaOffer {
  std::uint32_t process_epoch = 0;  // differs between two starts of one program
  std::uint32_t connection = 0;     // differs between two connections of one process
  bool ethernet = true;             // RoCE; else InfiniBand
  bool checksum = false;
  Gid gid{};
  std::uint16_t lid = 0;
  std::uint8_t mtu_code = 0;    // as verbs number them: 1 is 256 bytes, 5 is 4096
  std::uint8_t read_depth = 0;  // READs that this end answers at a time, on one queue pair
  std::uint32_t receives = 0;   // posted RECVs; half for records, half for what acknowledges them
  std::uint32_t queues = 0;     // queue pairs a lane
  MemoryOffer pool, inbox;
  // Lane by lane: one for each queue; then the one for READs of each lane; then the greeting's.
  std::vector<QueuePairOffer> queue_pairs;
};

inline constexpr std::uint16_t kRdmaVersion = 1;

std::size_t queue_pair_count(std::uint32_t queues);
std::vector<std::byte> encode_offer(const RdmaOffer& offer);
std::optional<RdmaOffer> parse_offer(std::span<const std::byte> bytes, std::string& error);
// Empty where they fit; else what does not, with both values.
std::string agree(const RdmaOffer& ours, const RdmaOffer& theirs);

}  // namespace kvlane::live
