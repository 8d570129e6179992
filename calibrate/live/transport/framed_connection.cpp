#include "calibrate/live/transport/framed_connection.h"

#include <fmt/format.h>

#include "calibrate/live/wire/checksum.h"
#include "sim/base/check.h"

namespace kvlane::live {

FramedConnection::FramedConnection(WallLoop& loop, ConnectionOwner& owner,
                                   const ConnectionMemory& memory, const ConnectionOptions& options)
    : loop_(loop),
      owner_(owner),
      memory_(memory),
      options_(options),
      acks_(std::size_t{kLaneCount} * options.queues) {}

TransportLimits FramedConnection::limits() const {
  TransportLimits limits;
  limits.gpu_direct = false;
  return limits;
}

std::vector<EpochFragment> FramedConnection::remote_pieces(
    const std::vector<Fragment>& fragments) const {
  std::vector<EpochFragment> pieces;
  pieces.reserve(fragments.size());
  for (const Fragment& f : fragments) {
    const RegionPlace* place = memory_.remote->find(f.region);
    KVLANE_CHECK(place != nullptr, "the peer never told of region {}", f.region.value());
    pieces.push_back({f, place->epoch});
  }
  return pieces;
}

std::vector<EpochFragment> FramedConnection::local_pieces(
    const std::vector<Fragment>& fragments) const {
  std::vector<EpochFragment> pieces;
  pieces.reserve(fragments.size());
  for (const Fragment& f : fragments) pieces.push_back({f, memory_.local->epoch_of(f.region)});
  return pieces;
}

std::uint32_t FramedConnection::payload_checksum(const std::vector<EpochFragment>& pieces) const {
  std::uint32_t sum = 0;
  for (const EpochFragment& p : pieces) {
    const Fragment& f = p.fragment;
    sum = checksum(
        {memory_.local->own(f.region, f.offset, f.length), static_cast<std::size_t>(f.length)},
        sum);
  }
  return sum;
}

FramedConnection::Frame FramedConnection::frame_of(const Operation& operation) {
  Frame frame;
  Writer writer(frame.body);
  frame.head.id = operation.id;
  frame.head.op = operation.op;
  encode_fragments(remote_pieces(operation.fragments), writer);
  if (operation.op == TransferOp::read) {
    frame.head.type = FrameType::read_request;
    writer.put(operation.bytes);
  } else {
    frame.head.type = FrameType::data;
    frame.head.payload = operation.bytes;
    writer.put_bytes(operation.message);
    frame.pieces = local_pieces(operation.fragments);
    if (options_.checksum) frame.head.payload_checksum = payload_checksum(frame.pieces);
  }
  posted_[operation.id] = {&operation, {}, stream_of(operation)};
  ++counters_.operations;
  counters_.fragments += operation.fragments.size();
  return frame;
}

void FramedConnection::mark_begin(std::uint64_t id) {
  const auto found = posted_.find(id);
  if (found != posted_.end()) found->second.begin = loop_.clock();
}

void FramedConnection::lose(const std::string& reason) {
  if (closed_ || std::exchange(lost_, true)) return;
  posted_.clear();
  owner_.lost(reason);
}

std::string FramedConnection::check_body(const FrameHead& head, std::span<const std::byte> body,
                                         std::vector<EpochFragment>& pieces) {
  pieces.clear();
  if (head.type == FrameType::read_reply) {
    const auto found = posted_.find(head.id);
    if (found == posted_.end() || found->second.operation->op != TransferOp::read) {
      return fmt::format("answered read {:x}, which nobody asked for", head.id);
    }
    if (found->second.operation->bytes != head.payload) {
      return fmt::format("answered a read of {} bytes with {}", found->second.operation->bytes,
                         head.payload);
    }
    pieces = local_pieces(found->second.operation->fragments);
    return {};
  }
  if (head.type != FrameType::data) {
    return head.payload == 0 ? "" : "sent a frame with a payload where none belongs";
  }
  Reader in(body);
  if (!decode_fragments(in, head.payload, pieces)) {
    return fmt::format("sent fragments that do not add up to {} bytes", head.payload);
  }
  for (const EpochFragment& p : pieces) {
    if (memory_.place(p) != nullptr) continue;
    std::string problem = outside(p, "wrote");
    if (problem.empty()) pieces.clear();  // late, not wrong
    return problem;
  }
  return {};
}

// What is wrong with a piece that has no place here; empty where its region was withdrawn
// meanwhile.
std::string FramedConnection::outside(const EpochFragment& piece, const char* did) const {
  const Fragment& f = piece.fragment;
  const bool theirs = memory_.local->open_to(f.region, memory_.peer);
  if (theirs && !memory_.local->is_exposed(f.region, piece.epoch)) return {};
  return fmt::format("{} {} bytes at {} of region {}, which {}", did, f.length, f.offset,
                     f.region.value(), theirs ? "has less" : "is another's");
}

void FramedConnection::acknowledge(std::size_t stream, std::uint64_t id, TransferStatus status) {
  acks_[stream].push_back({id, status, loop_.clock().time_since_epoch().count()});
}

std::vector<std::byte> FramedConnection::take_acks(std::size_t stream) {
  std::vector<std::byte> body;
  encode_acks(acks_[stream], body);
  acks_[stream].clear();
  return body;
}

std::string FramedConnection::accept_data(std::size_t stream, const FrameHead& head,
                                          std::span<const std::byte> body, bool dropped) {
  Reader in(body);
  std::vector<EpochFragment> pieces;
  decode_fragments(in, head.payload, pieces);
  const bool placed = !dropped;
  if (placed && options_.checksum && payload_checksum(pieces) != head.payload_checksum) {
    ++counters_.checksum_errors;
    return fmt::format("sent {} bytes that do not fit their checksum", head.payload);
  }
  acknowledge(stream, head.id, placed ? TransferStatus::ok : TransferStatus::failed);
  if (placed && !in.rest().empty()) {
    owner_.arrived(static_cast<Lane>(stream / options_.queues),
                   static_cast<std::uint32_t>(stream % options_.queues), in.rest());
  }
  return {};
}

std::string FramedConnection::accept_read(std::size_t stream, const FrameHead& head,
                                          std::span<const std::byte> body) {
  // The byte count follows the fragments; both must agree.
  if (body.size() < 8) return "asked for a read without a size";
  Reader size(body.last(8));
  const auto bytes = size.get<std::int64_t>();
  Reader in(body.first(body.size() - 8));
  std::vector<EpochFragment> pieces;
  if (!decode_fragments(in, bytes, pieces) || !in.done()) {
    return fmt::format("asked for fragments that do not add up to {} bytes", bytes);
  }
  for (const EpochFragment& p : pieces) {
    if (memory_.place(p) != nullptr) continue;
    if (std::string problem = outside(p, "read"); !problem.empty()) return problem;
    acknowledge(stream, head.id, TransferStatus::failed);
    return {};
  }
  FrameHead request = head;
  request.payload = bytes;
  answer_read(stream, request, std::move(pieces));
  return {};
}

std::string FramedConnection::accept_reply(const FrameHead& head, bool dropped) {
  const auto found = posted_.find(head.id);
  if (found == posted_.end()) return {};
  const Posted posted = found->second;
  posted_.erase(found);
  if (dropped) {  // our region went away meanwhile
    owner_.completed(head.id, TransferStatus::failed, posted.begin, loop_.clock());
    return {};
  }
  if (options_.checksum &&
      payload_checksum(local_pieces(posted.operation->fragments)) != head.payload_checksum) {
    ++counters_.checksum_errors;
    return fmt::format("sent {} bytes that do not fit their checksum", head.payload);
  }
  owner_.completed(head.id, TransferStatus::ok, posted.begin, loop_.clock());
  return {};
}

std::string FramedConnection::accept_acks(std::span<const std::byte> body) {
  std::vector<Ack> acks;
  if (!decode_acks(body, acks)) return "sent acknowledgements that are none";
  for (const Ack& ack : acks) {
    const auto found = posted_.find(ack.id);
    if (found == posted_.end()) {
      return fmt::format("acknowledged operation {:x}, which is not in flight", ack.id);
    }
    const TimePoint begin = found->second.begin;
    posted_.erase(found);
    owner_.completed(ack.id, ack.status, begin, TimePoint(Duration(ack.applied_ps)));
    if (closed_ || lost_) return {};
  }
  return {};
}

std::string FramedConnection::accept(std::size_t stream, const FrameHead& head,
                                     std::span<const std::byte> body, bool dropped) {
  switch (head.type) {
    case FrameType::data:
      return accept_data(stream, head, body, dropped);
    case FrameType::read_request:
      return accept_read(stream, head, body);
    case FrameType::read_reply:
      return accept_reply(head, dropped);
    case FrameType::acks:
      return accept_acks(body);
  }
  return "sent a frame of no type";
}

}  // namespace kvlane::live
