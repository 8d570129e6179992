#include "calibrate/live/rdma/record.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMagic = 0x4352564b;  // "KVRC"

}  // namespace

void encode_record_header(const RecordHeader& h, std::span<std::byte> to) {
  std::vector<std::byte> bytes;
  bytes.reserve(kRecordHeaderBytes);
  Writer out(bytes);
  out.put(kMagic);
  out.put(h.kind);
  out.put(static_cast<std::uint8_t>(h.has_message ? 1 : 0));
  out.put(static_cast<std::uint8_t>(h.has_checksum ? 1 : 0));
  out.put(std::uint8_t{0});
  out.put(h.operation);
  out.put(h.part);
  out.put(h.checksum);
  out.put(h.message_bytes);
  out.put(h.list_bytes);
  out.put(h.piece_bytes);
  bytes.resize(kRecordHeaderBytes);
  KVLANE_CHECK(to.size() >= kRecordHeaderBytes, "{} bytes for a header", to.size());
  std::copy(bytes.begin(), bytes.end(), to.begin());
}

std::optional<Record> parse_record(std::span<const std::byte> slot, std::string& error) {
  Reader in(slot.first(std::min(slot.size(), kRecordHeaderBytes)));
  Record record;
  RecordHeader& h = record.header;
  const auto magic = in.get<std::uint32_t>();
  h.kind = in.get_enum(RecordKind::read_refused);
  h.has_message = in.get<std::uint8_t>() != 0;
  h.has_checksum = in.get<std::uint8_t>() != 0;
  in.get<std::uint8_t>();
  h.operation = in.get<std::uint64_t>();
  h.part = in.get<std::uint32_t>();
  h.checksum = in.get<std::uint32_t>();
  h.message_bytes = in.get<std::uint32_t>();
  h.list_bytes = in.get<std::uint32_t>();
  h.piece_bytes = in.get<std::int64_t>();
  if (!in.ok() || magic != kMagic || slot.size() < kRecordHeaderBytes) {
    error = "a record without a header";
    return std::nullopt;
  }
  const bool carries = h.kind == RecordKind::packed || h.kind == RecordKind::read_reply;
  std::span<const std::byte> left = slot.subspan(kRecordHeaderBytes);
  if (h.message_bytes > left.size() || h.list_bytes > left.size() - h.message_bytes ||
      h.piece_bytes < 0 ||
      (carries &&
       static_cast<std::uint64_t>(h.piece_bytes) > left.size() - h.message_bytes - h.list_bytes)) {
    error = fmt::format("a record of {} + {} + {} bytes in a slot of {}", h.message_bytes,
                        h.list_bytes, h.piece_bytes, slot.size());
    return std::nullopt;
  }
  record.message = left.first(h.message_bytes);
  Reader list(left.subspan(h.message_bytes, h.list_bytes));
  // What is placed names the range that it lies in, which may be more than its bytes.
  if (h.list_bytes > 0 && !decode_fragments(list, h.piece_bytes, record.pieces)) {
    error = "a record whose list of pieces does not add up";
    return std::nullopt;
  }
  if (carries) {
    record.payload =
        left.subspan(h.message_bytes + h.list_bytes, static_cast<std::size_t>(h.piece_bytes));
  }
  return record;
}

std::size_t encode_acks(std::span<const SlotAck> acks, std::span<std::byte> to) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  for (const SlotAck& ack : acks) {
    out.put(ack.slot);
    out.put(ack.status);
    out.put(ack.applied_ps);
  }
  KVLANE_CHECK(bytes.size() <= to.size(), "{} bytes of acks in {}", bytes.size(), to.size());
  std::copy(bytes.begin(), bytes.end(), to.begin());
  return bytes.size();
}

std::optional<std::vector<SlotAck>> parse_acks(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % kAckBytes != 0) return std::nullopt;
  Reader in(bytes);
  std::vector<SlotAck> acks(bytes.size() / kAckBytes);
  for (SlotAck& ack : acks) {
    ack.slot = in.get<std::uint32_t>();
    ack.status = in.get_enum(AckStatus::checksum);
    ack.applied_ps = in.get<std::int64_t>();
    if (ack.applied_ps < 0 || ack.applied_ps > kMostPs) in.fail();
  }
  return in.ok() ? std::optional(std::move(acks)) : std::nullopt;
}

}  // namespace kvlane::live
