#include "calibrate/live/wire/frame.h"

#include <fmt/format.h>

#include "calibrate/live/wire/checksum.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMagic = 0x314c564bU;  // "KVL1"
constexpr std::size_t kChecksumAt = kHeadBytes - 4;

}  // namespace

void encode_frame(FrameHead head, std::span<const std::byte> body, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  Writer writer(out);
  writer.put(kMagic);
  writer.put(head.type);
  writer.put(head.op);
  writer.put(std::uint16_t{0});
  writer.put(head.id);
  writer.put(head.payload);
  writer.put(static_cast<std::uint32_t>(body.size()));
  writer.put(head.payload_checksum);
  const std::uint32_t sum = checksum(body, checksum(std::span(out).subspan(start, kChecksumAt)));
  writer.put(sum);
  writer.put_bytes(body);
}

std::string decode_head(std::span<const std::byte> bytes, FrameHead& head) {
  Reader in(bytes);
  const auto magic = in.get<std::uint32_t>();
  if (!in.ok() || magic != kMagic) return fmt::format("a frame that begins with {:08x}", magic);
  const auto type = in.get<std::uint8_t>();
  const auto op = in.get<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(FrameType::acks) ||
      op > static_cast<std::uint8_t>(TransferOp::read)) {
    return fmt::format("a frame of type {}, operation {}", type, op);
  }
  head.type = static_cast<FrameType>(type);
  head.op = static_cast<TransferOp>(op);
  in.get<std::uint16_t>();
  head.id = in.get<std::uint64_t>();
  head.payload = in.get<std::int64_t>();
  head.body = in.get<std::uint32_t>();
  head.payload_checksum = in.get<std::uint32_t>();
  head.checksum = in.get<std::uint32_t>();
  if (!in.ok()) return "a frame without its head";
  if (head.payload < 0 || head.payload > kMostPayload || head.body > kMostBody) {
    return fmt::format("a frame with {} bytes of body and {} of payload", head.body, head.payload);
  }
  return {};
}

bool body_holds(std::span<const std::byte> head_bytes, const FrameHead& head,
                std::span<const std::byte> body) {
  return checksum(body, checksum(head_bytes.first(kChecksumAt))) == head.checksum;
}

void encode_acks(std::span<const Ack> acks, std::vector<std::byte>& body) {
  Writer out(body);
  for (const Ack& ack : acks) {
    out.put(ack.id);
    out.put(ack.status);
    out.put(ack.applied_ps);
  }
}

bool decode_acks(std::span<const std::byte> body, std::vector<Ack>& acks) {
  Reader in(body);
  acks.clear();
  while (in.ok() && !in.rest().empty()) {
    Ack ack;
    ack.id = in.get<std::uint64_t>();
    ack.status = in.get_enum(TransferStatus::failed);
    ack.applied_ps = in.get<std::int64_t>();
    if (ack.applied_ps > kMostPs || ack.applied_ps < 0) in.fail();
    acks.push_back(ack);
  }
  return in.ok();
}

}  // namespace kvlane::live
