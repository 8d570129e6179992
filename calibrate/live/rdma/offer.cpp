#include "calibrate/live/rdma/offer.h"

#include <fmt/format.h>

#include <limits>

#include "calibrate/live/wire/bytes.h"
#include "sim/port/transport.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMagic = 0x41445652;  // "RVDA"
constexpr std::uint32_t k24Bits = 0xffffff;
constexpr std::uint32_t kMostQueues = 64;
constexpr std::uint32_t kMostReceives = 1U << 16U;
constexpr std::uint64_t kMostInbox = std::uint64_t{1} << 30U;  // its slots are numbered in 24 bits

void put(Writer& out, const MemoryOffer& memory) {
  out.put(memory.address);
  out.put(memory.bytes);
  out.put(memory.key);
}

MemoryOffer get_memory(Reader& in) {
  MemoryOffer memory;
  memory.address = in.get<std::uint64_t>();
  memory.bytes = in.get<std::uint64_t>();
  memory.key = in.get<std::uint32_t>();
  return memory;
}

std::string wrong(const MemoryOffer& memory, const char* name) {
  if (memory.bytes == 0 || memory.bytes > std::numeric_limits<std::int64_t>::max() ||
      memory.address > std::numeric_limits<std::uint64_t>::max() - memory.bytes) {
    return fmt::format("{} of {} bytes at {:#x}", name, memory.bytes, memory.address);
  }
  return {};
}

std::string wrong(const RdmaOffer& o) {
  if (o.mtu_code < 1 || o.mtu_code > 5)
    return fmt::format("MTU code {}; expected 1 to 5", o.mtu_code);
  if (o.receives < 2 || o.receives > kMostReceives) {
    return fmt::format("{} receives; expected 2 to {}", o.receives, kMostReceives);
  }
  if (o.ethernet ? o.gid == Gid{} : o.lid == 0) return "no address: GID and LID are zero";
  if (auto text = wrong(o.pool, "a pool"); !text.empty()) return text;
  if (auto text = wrong(o.inbox, "an inbox"); !text.empty()) return text;
  if (o.inbox.bytes > kMostInbox || o.inbox.bytes % 64 != 0) {
    return fmt::format("an inbox of {} bytes; expected at most {} and a multiple of 64",
                       o.inbox.bytes, kMostInbox);
  }
  for (const QueuePairOffer& pair : o.queue_pairs) {
    if (pair.number == 0 || pair.number > k24Bits || pair.first_psn > k24Bits) {
      return fmt::format("queue pair {:#x} from PSN {:#x}; expected 24 bits", pair.number,
                         pair.first_psn);
    }
  }
  return {};
}

}  // namespace

std::size_t queue_pair_count(std::uint32_t queues) {
  return static_cast<std::size_t>(kLaneCount) * queues + kLaneCount + 1;
}

std::vector<std::byte> encode_offer(const RdmaOffer& o) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  out.put(kMagic);
  out.put(kRdmaVersion);
  out.put(o.process_epoch);
  out.put(o.connection);
  out.put(static_cast<std::uint8_t>(o.ethernet ? 1 : 0));
  out.put(static_cast<std::uint8_t>(o.checksum ? 1 : 0));
  out.put_bytes(std::as_bytes(std::span(o.gid)));
  out.put(o.lid);
  out.put(o.mtu_code);
  out.put(o.read_depth);
  out.put(o.receives);
  put(out, o.pool);
  put(out, o.inbox);
  out.put(o.queues);
  for (const QueuePairOffer& pair : o.queue_pairs) {
    out.put(pair.number);
    out.put(pair.first_psn);
  }
  return bytes;
}

std::optional<RdmaOffer> parse_offer(std::span<const std::byte> bytes, std::string& error) {
  Reader in(bytes);
  const auto magic = in.get<std::uint32_t>();
  const auto version = in.get<std::uint16_t>();
  if (!in.ok() || magic != kMagic) {
    error = fmt::format("{} bytes that are no RDMA offer", bytes.size());
    return std::nullopt;
  }
  if (version != kRdmaVersion) {
    error = fmt::format("an RDMA offer of version {}; expected {}", version, kRdmaVersion);
    return std::nullopt;
  }
  RdmaOffer o;
  o.process_epoch = in.get<std::uint32_t>();
  o.connection = in.get<std::uint32_t>();
  const auto ethernet = in.get<std::uint8_t>();
  const auto checksum = in.get<std::uint8_t>();
  const auto gid = in.get_bytes(o.gid.size());
  if (in.ok()) std::memcpy(o.gid.data(), gid.data(), gid.size());
  o.lid = in.get<std::uint16_t>();
  o.mtu_code = in.get<std::uint8_t>();
  o.read_depth = in.get<std::uint8_t>();
  o.receives = in.get<std::uint32_t>();
  o.pool = get_memory(in);
  o.inbox = get_memory(in);
  o.queues = in.get<std::uint32_t>();
  if (!in.ok() || o.queues == 0 || o.queues > kMostQueues || ethernet > 1 || checksum > 1 ||
      in.rest().size() != queue_pair_count(o.queues) * 8) {
    error = fmt::format(
        "an RDMA offer of {} bytes for {} queues a lane; expected 1 to {} and as many bytes as "
        "those take",
        bytes.size(), o.queues, kMostQueues);
    return std::nullopt;
  }
  o.ethernet = ethernet == 1;
  o.checksum = checksum == 1;
  o.queue_pairs.resize(queue_pair_count(o.queues));
  for (QueuePairOffer& pair : o.queue_pairs) {
    pair.number = in.get<std::uint32_t>();
    pair.first_psn = in.get<std::uint32_t>();
  }
  if (const std::string text = wrong(o); !text.empty()) {
    error = "an RDMA offer with " + text;
    return std::nullopt;
  }
  return o;
}

std::string agree(const RdmaOffer& ours, const RdmaOffer& theirs) {
  if (ours.ethernet != theirs.ethernet) {
    return fmt::format("this end is on {}, the peer on {}", ours.ethernet ? "RoCE" : "InfiniBand",
                       theirs.ethernet ? "RoCE" : "InfiniBand");
  }
  if (ours.queues != theirs.queues) {
    return fmt::format("{} queues a lane here, {} at the peer", ours.queues, theirs.queues);
  }
  if (ours.checksum != theirs.checksum) {
    return fmt::format("checksums are {} here, {} at the peer", ours.checksum ? "on" : "off",
                       theirs.checksum ? "on" : "off");
  }
  return {};
}

}  // namespace kvlane::live
