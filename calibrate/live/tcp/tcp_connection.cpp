#include "calibrate/live/tcp/tcp_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace kvlane::live::tcp {
namespace {

// Unsent bytes that the kernel may hold of a stream: enough to keep a fast path busy between two
// turns, little enough that a higher lane waits less than a millisecond on 10 Gbit/s.
constexpr int kNotSent = 512 << 10U;
constexpr std::size_t kTurn = std::size_t{1} << 20U;  // bytes of a stream a turn, each way

}  // namespace

TcpConnection::TcpConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                             const ConnectionOptions& options, const std::vector<int>& sockets)
    : FramedConnection(loop, owner, memory, options) {
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

void TcpConnection::post(const Operation& operation) {
  if (closed_ || lost_) return;
  Frame frame = frame_of(operation);
  streams_[stream_of(operation)].stream->queue(frame.head, frame.body, std::move(frame.pieces));
  schedule_pump();
}

bool TcpConnection::cancel(std::uint64_t id) {
  const auto found = posted_.find(id);
  if (found == posted_.end() || !streams_[found->second.stream].stream->withdraw(id)) return false;
  posted_.erase(found);
  return true;
}

void TcpConnection::answer_read(std::size_t stream, const FrameHead& request,
                                std::vector<EpochFragment> pieces) {
  FrameHead reply;
  reply.type = FrameType::read_reply;
  reply.id = request.id;
  reply.payload = request.payload;
  if (options_.checksum) reply.payload_checksum = payload_checksum(pieces);
  streams_[stream].stream->queue(reply, {}, std::move(pieces));
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
  std::size_t number = 0;
  for (Entry& entry : streams_) {
    if (has_acks(number)) {
      FrameHead head;
      head.type = FrameType::acks;
      entry.stream->queue(head, take_acks(number), {});
    }
    ++number;
    if (blocked || !entry.stream->pending()) {
      watch_writable(entry, false);
      continue;
    }
    std::size_t written = 0;
    const std::string problem = entry.stream->write(kTurn, written);
    counters_.bytes_out += written;
    if (!problem.empty()) return drop(problem);
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

void TcpConnection::drop(const std::string& reason) {
  if (lost_ || closed_) return;
  for (Entry& entry : streams_) loop_.unwatch(entry.stream->fd());
  lose(reason);
}

void TcpConnection::on_ready(int fd, std::uint32_t events) {
  const std::size_t number = by_fd_.at(fd);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    std::size_t got = 0;
    const std::string problem = streams_[number].stream->read(kTurn, got);
    if (closed_) return;
    counters_.bytes_in += got;
    if (!problem.empty()) return drop(problem);
  }
  if (!lost_) pump();
}

}  // namespace kvlane::live::tcp
