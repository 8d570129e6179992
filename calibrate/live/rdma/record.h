#pragma once
// What lies in an inbox slot when a WRITE with immediate has told of it: a header, a message, the
// list of the pieces it speaks of, and their bytes where these travel packed. And what comes back.
//
// Everything here came from the network: parse_record() looks at sizes, the caller at each piece
// (RegionTable::find).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/wire/message.h"

namespace kvlane::live {

enum class RecordKind : std::uint8_t {
  placed,        // the pieces were written in place before it
  packed,        // the pieces' bytes follow: to be put in place before anyone is told
  read_request,  // the pieces are wanted, packed
  read_reply,    // the answer
  read_refused,  // the pieces may not be read
};

struct RecordHeader {
  RecordKind kind = RecordKind::placed;
  bool has_message = false, has_checksum = false;
  std::uint32_t checksum = 0;   // of the pieces' bytes, in their order
  std::uint64_t operation = 0;  // the sender's number; parts of one operation share it
  std::uint32_t part = 0;
  std::uint32_t message_bytes = 0, list_bytes = 0;
  std::int64_t piece_bytes = 0;  // of the pieces together
};

inline constexpr std::size_t kRecordHeaderBytes = 48;

struct Record {
  RecordHeader header;
  std::span<const std::byte> message, payload;  // into the slot
  std::vector<EpochFragment> pieces;
};

void encode_record_header(const RecordHeader& header, std::span<std::byte> to);
// `slot`: from its place to the end of the inbox.
std::optional<Record> parse_record(std::span<const std::byte> slot, std::string& error);

// The immediate: which slot, in units of 64 bytes, and the low bits of the receiver's connection
// number, so that what was meant for an earlier connection is not taken for ours.
inline constexpr std::uint64_t kSlotUnit = 64;
constexpr std::uint32_t encode_immediate(std::uint64_t offset, std::uint32_t connection) {
  return static_cast<std::uint32_t>(offset / kSlotUnit) << 8U | (connection & 0xffU);
}

enum class AckStatus : std::uint32_t { applied, refused, checksum };

struct SlotAck {
  std::uint32_t slot = 0;  // as in the immediate, without the connection's bits
  AckStatus status = AckStatus::applied;
  std::int64_t applied_ps = 0;  // by the receiver's clock
};

inline constexpr std::size_t kAckBytes = 16;
inline constexpr std::size_t kAcksTogether = 15;

std::size_t encode_acks(std::span<const SlotAck> acks, std::span<std::byte> to);
std::optional<std::vector<SlotAck>> parse_acks(std::span<const std::byte> bytes);

}  // namespace kvlane::live
