#include "calibrate/live/tcp/tcp_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "calibrate/live/wire/checksum.h"
#include "sim/base/check.h"

namespace kvlane::live::tcp {
namespace {

// Unsent bytes that the kernel may hold of a stream: enough to keep a fast path busy between two
// turns, little enough that a higher lane waits less than a millisecond on 10 Gbit/s.
constexpr int kNotSent = 512 << 10U;
constexpr std::size_t kTurn = std::size_t{1} << 20U;  // bytes of a stream a turn, each way

}  // namespace

TcpConnection::TcpConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                             const ConnectionOptions& options, const std::vector<int>& sockets)
    : loop_(loop), owner_(owner), memory_(memory), options_(options) {
  for (const int fd : sockets) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kNotSent, sizeof kNotSent);
    Entry entry;
    entry.stream = std::make_unique<Stream>(streams_.size(), fd, *memory_.local, *this);
    by_fd_[fd] = streams_.size();
    streams_.push_back(std::move(entry));
    loop_.watch(fd, EPOLLIN, *this);
  }
}

TcpConnection::~TcpConnection() { close(); }

void TcpConnection::close() {
  if (std::exchange(closed_, true)) return;
  if (pump_timer_) loop_.cancel(pump_timer_);
  for (Entry& entry : streams_) loop_.unwatch(entry.stream->fd());
  streams_.clear();
  posted_.clear();
}

TransportLimits TcpConnection::limits() const {
  TransportLimits limits;
  limits.gpu_direct = false;
  return limits;
}

std::vector<EpochFragment> TcpConnection::remote_pieces(const Operation& operation) const {
  std::vector<EpochFragment> pieces;
  pieces.reserve(operation.fragments.size());
  for (const Fragment& f : operation.fragments) {
    const RegionPlace* place = memory_.remote->find(f.region);
    KVLANE_CHECK(place != nullptr, "the peer never told of region {}", f.region.value());
    pieces.push_back({f, place->epoch});
  }
  return pieces;
}

std::vector<EpochFragment> TcpConnection::local_pieces(
    const std::vector<Fragment>& fragments) const {
  std::vector<EpochFragment> pieces;
  pieces.reserve(fragments.size());
  for (const Fragment& f : fragments) {
    pieces.push_back({f, memory_.local->epoch_of(f.region)});
  }
  return pieces;
}

std::uint32_t TcpConnection::payload_checksum(const std::vector<EpochFragment>& pieces) const {
  std::uint32_t sum = 0;
  for (const EpochFragment& p : pieces) {
    const Fragment& f = p.fragment;
    sum = checksum(
        {memory_.local->own(f.region, f.offset, f.length), static_cast<std::size_t>(f.length)},
        sum);
  }
  return sum;
}

void TcpConnection::post(const Operation& operation) {
  if (closed_ || lost_) return;
  const std::size_t number =
      index(operation.lane) * options_.queues + operation.queue % options_.queues;
  std::vector<std::byte> body;
  Writer writer(body);
  FrameHead head;
  head.id = operation.id;
  head.op = operation.op;
  encode_fragments(remote_pieces(operation), writer);
  std::vector<EpochFragment> pieces;
  if (operation.op == TransferOp::read) {
    head.type = FrameType::read_request;
    writer.put(operation.bytes);
  } else {
    head.type = FrameType::data;
    head.payload = operation.bytes;
    writer.put_bytes(operation.message);
    pieces = local_pieces(operation.fragments);
    if (options_.checksum) head.payload_checksum = payload_checksum(pieces);
  }
  posted_[operation.id] = {&operation, {}, number};
  streams_[number].stream->queue(head, body, std::move(pieces));
  ++counters_.operations;
  counters_.fragments += operation.fragments.size();
  schedule_pump();
}

bool TcpConnection::cancel(std::uint64_t id) {
  const auto found = posted_.find(id);
  if (found == posted_.end() || !streams_[found->second.stream].stream->withdraw(id)) return false;
  posted_.erase(found);
  return true;
}

// Posting never writes: what is posted in one turn goes out together.
void TcpConnection::schedule_pump() {
  if (pump_timer_) return;
  pump_timer_ = loop_.schedule_at(loop_.now(), {[](void* self, std::uint64_t) {
                                                  auto& connection =
                                                      *static_cast<TcpConnection*>(self);
                                                  connection.pump_timer_ = {};
                                                  connection.pump();
                                                },
                                                this, 0});
}

void TcpConnection::watch_writable(Entry& entry, bool wanted) {
  if (entry.wants_write == wanted) return;
  entry.wants_write = wanted;
  loop_.change(entry.stream->fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void TcpConnection::pump() {
  bool blocked = false;
  bool more = false;
  for (Entry& entry : streams_) {
    if (!entry.acks.empty()) {
      std::vector<std::byte> body;
      encode_acks(entry.acks, body);
      entry.acks.clear();
      FrameHead head;
      head.type = FrameType::acks;
      entry.stream->queue(head, body, {});
    }
    if (blocked || !entry.stream->pending()) {
      watch_writable(entry, false);
      continue;
    }
    std::size_t written = 0;
    const std::string problem = entry.stream->write(kTurn, written);
    counters_.bytes_out += written;
    if (!problem.empty()) return lose(problem);
    if (!entry.stream->pending()) {
      watch_writable(entry, false);
    } else if (written >= kTurn) {
      more = true;  // let the others have their turn, then go on here
      blocked = true;
    } else {
      watch_writable(entry, true);
      blocked = true;
      ++counters_.starved;
    }
  }
  if (more) schedule_pump();
}

void TcpConnection::lose(const std::string& reason) {
  if (std::exchange(lost_, true)) return;
  for (Entry& entry : streams_) loop_.unwatch(entry.stream->fd());
  posted_.clear();
  owner_.lost(reason);
}

void TcpConnection::on_ready(int fd, std::uint32_t events) {
  const std::size_t number = by_fd_.at(fd);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    std::size_t got = 0;
    const std::string problem = streams_[number].stream->read(kTurn, got);
    if (closed_) return;
    counters_.bytes_in += got;
    if (!problem.empty()) return lose(problem);
  }
  if (!lost_) pump();
}

void TcpConnection::started(std::uint64_t id) {
  const auto found = posted_.find(id);
  if (found != posted_.end()) found->second.begin = loop_.clock();
}

std::string TcpConnection::on_body(std::size_t, const FrameHead& head,
                                   std::span<const std::byte> body,
                                   std::vector<EpochFragment>& pieces) {
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
    const Fragment& f = p.fragment;
    if (memory_.local->find(f.region, p.epoch, f.offset, f.length) != nullptr) continue;
    if (!memory_.local->is_exposed(f.region, p.epoch)) {
      pieces.clear();  // of a region that was withdrawn meanwhile: late, not wrong
      return {};
    }
    return fmt::format("wrote {} bytes at {} of region {}, which has less", f.length, f.offset,
                       f.region.value());
  }
  return {};
}

std::string TcpConnection::accept_data(std::size_t stream, const FrameHead& head,
                                       std::span<const std::byte> body, bool dropped) {
  Reader in(body);
  std::vector<EpochFragment> pieces;
  decode_fragments(in, head.payload, pieces);
  const bool placed = !dropped && (head.payload == 0 || !pieces.empty());
  if (placed && options_.checksum && payload_checksum(pieces) != head.payload_checksum) {
    ++counters_.checksum_errors;
    return fmt::format("sent {} bytes that do not fit their checksum", head.payload);
  }
  streams_[stream].acks.push_back({head.id, placed ? TransferStatus::ok : TransferStatus::failed,
                                   loop_.clock().time_since_epoch().count()});
  if (placed && !in.rest().empty()) {
    owner_.arrived(static_cast<Lane>(stream / options_.queues),
                   static_cast<std::uint32_t>(stream % options_.queues), in.rest());
  }
  return {};
}

std::string TcpConnection::accept_read(std::size_t stream, const FrameHead& head,
                                       std::span<const std::byte> body) {
  // The byte count follows the fragments; both must agree.
  std::vector<EpochFragment> pieces;
  if (body.size() < 8) return "asked for a read without a size";
  Reader size(body.last(8));
  const auto bytes = size.get<std::int64_t>();
  Reader in(body.first(body.size() - 8));
  if (!decode_fragments(in, bytes, pieces) || !in.done()) {
    return fmt::format("asked for fragments that do not add up to {} bytes", bytes);
  }
  FrameHead reply;
  reply.type = FrameType::read_reply;
  reply.id = head.id;
  reply.payload = bytes;
  for (const EpochFragment& p : pieces) {
    const Fragment& f = p.fragment;
    if (memory_.local->find(f.region, p.epoch, f.offset, f.length) != nullptr) continue;
    if (memory_.local->is_exposed(f.region, p.epoch)) {
      return fmt::format("read {} bytes at {} of region {}, which has less", f.length, f.offset,
                         f.region.value());
    }
    streams_[stream].acks.push_back(
        {head.id, TransferStatus::failed, loop_.clock().time_since_epoch().count()});
    return {};
  }
  if (options_.checksum) reply.payload_checksum = payload_checksum(pieces);
  streams_[stream].stream->queue(reply, {}, std::move(pieces));
  return {};
}

std::string TcpConnection::on_frame(std::size_t stream, const FrameHead& head,
                                    std::span<const std::byte> body, bool dropped) {
  switch (head.type) {
    case FrameType::data:
      return accept_data(stream, head, body, dropped);
    case FrameType::read_request:
      return accept_read(stream, head, body);
    case FrameType::read_reply: {
      const auto found = posted_.find(head.id);
      if (found == posted_.end()) return {};
      const Posted posted = found->second;
      posted_.erase(found);
      if (options_.checksum &&
          payload_checksum(local_pieces(posted.operation->fragments)) != head.payload_checksum) {
        ++counters_.checksum_errors;
        return fmt::format("sent {} bytes that do not fit their checksum", head.payload);
      }
      owner_.completed(head.id, TransferStatus::ok, posted.begin, loop_.clock());
      return {};
    }
    case FrameType::acks: {
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
  }
  return "sent a frame of no type";
}

}  // namespace kvlane::live::tcp
