#pragma once
// What goes over an ordered stream of bytes: a head of 36 bytes, a body, a payload. Head and body
// carry a checksum, the payload one where the session asked for it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/wire/message.h"

namespace kvlane::live {

enum class FrameType : std::uint8_t {
  data,          // body: fragments, then the message; payload: their bytes
  read_request,  // body: fragments
  read_reply,    // payload: the bytes of the request's fragments
  acks,          // body: Ack each
};

struct FrameHead {
  FrameType type = FrameType::data;
  TransferOp op = TransferOp::write;  // data
  std::uint64_t id = 0;
  std::int64_t payload = 0;  // bytes
  std::uint32_t body = 0;    // bytes
  std::uint32_t payload_checksum = 0;
  std::uint32_t checksum = 0;  // of head and body
};

struct Ack {
  std::uint64_t id = 0;
  TransferStatus status = TransferStatus::ok;
  std::int64_t applied_ps = 0;  // by the receiver's loop
};

inline constexpr std::size_t kHeadBytes = 36;
inline constexpr std::uint32_t kMostBody = 64U << 20U;
inline constexpr std::int64_t kMostPayload = std::int64_t{1} << 40U;

// Appends head and body; `body` is what the frame says beside its payload.
void encode_frame(FrameHead head, std::span<const std::byte> body, std::vector<std::byte>& out);
// Why the 36 bytes are no head; empty where they are.
std::string decode_head(std::span<const std::byte> bytes, FrameHead& head);
// Whether the checksum over head and body holds.
bool body_holds(std::span<const std::byte> head_bytes, const FrameHead& head,
                std::span<const std::byte> body);

void encode_acks(std::span<const Ack> acks, std::vector<std::byte>& body);
bool decode_acks(std::span<const std::byte> body, std::vector<Ack>& acks);

}  // namespace kvlane::live
