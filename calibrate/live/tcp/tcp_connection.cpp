#include "calibrate/live/tcp/tcp_connection.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

namespace kvlane::live::tcp {
namespace {

// Unsent bytes that the kernel may hold of a stream: enough to keep a fast path busy between two
// turns, little enough that a higher lane waits less than a millisecond on 10 Gbit/s.
constexpr int kNotSent = 512 << 10U;
// On a line that is known: as many seconds of it, of a lane that urgent ones may want to pass. TCP
// keeps its window full, which stands in the queues of the path in front of whatever comes later:
// the speculative lane is paced to just below the line, so that nothing of it stands there, and the
// proactive one to the line: on slow lines always, on others while fetches come, as what pacing
// costs them (6 % at 10 Gbit/s) is lost where there is nothing to be passed.
constexpr double kAhead = 0.0005;
constexpr int kLeastNotSent = 8 << 10U;
// What stands in the path's queues all the same is drained by so much with each urgent write.
constexpr std::int64_t kDrained = 16 << 10;
constexpr double kProactiveShare = 0.985, kSpeculativeShare = 0.95;
constexpr double kUnpaced = 1e18;
constexpr Bandwidth kSlow = Bandwidth::gbit_per_sec(0.2);       // a window of 256 KiB is 10 ms
constexpr Duration kFetching = std::chrono::milliseconds(100);  // since the last
constexpr Duration kLeastWait = std::chrono::microseconds(20);
constexpr Duration kLongestWait = std::chrono::milliseconds(5);
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

void TcpConnection::set_line(Bandwidth payload) {
  line_ = payload;
  const int not_sent = std::clamp(static_cast<int>(std::min(payload.bytes_per_sec() * kAhead, 1e9)),
                                  kLeastNotSent, kNotSent);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const auto lane = static_cast<Lane>(i / options_.queues);
    if (lane != Lane::proactive && lane != Lane::speculative) continue;
    const int fd = streams_[i].stream->fd();
    ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &not_sent, sizeof not_sent);
  }
  pace(Lane::speculative, payload.bytes_per_sec() * kSpeculativeShare);
  pace_proactive(payload <= kSlow);
}

void TcpConnection::pace(Lane lane, double bytes_per_s) {
  const auto rate = static_cast<unsigned long>(bytes_per_s);
  for (std::size_t i = index(lane) * options_.queues; i < (index(lane) + 1) * options_.queues;
       ++i) {
    ::setsockopt(streams_[i].stream->fd(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
  }
}

void TcpConnection::pace_proactive(bool paced) {
  if (std::exchange(proactive_paced_, paced) == paced) return;
  pace(Lane::proactive, paced ? line_.bytes_per_sec() * kProactiveShare : kUnpaced);
}

void TcpConnection::close() {
  if (std::exchange(closed_, true)) return;
  if (pump_timer_) loop_.cancel(pump_timer_);
  if (resume_timer_) loop_.cancel(resume_timer_);
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

// Bytes of these streams that the kernel has not sent.
std::int64_t TcpConnection::unsent(std::size_t begin, std::size_t end) const {
  std::int64_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) {
    int held = 0;
    if (::ioctl(streams_[i].stream->fd(), SIOCOUTQNSD, &held) == 0) bytes += held;
  }
  return bytes;
}

Duration TcpConnection::line_time(std::int64_t bytes) const {
  return seconds_to_duration(static_cast<double>(bytes) / line_.bytes_per_sec());
}

// Urgent lanes have written. What the kernel has of the others goes out beside it, so that the line
// has both to carry; without this the difference would stand in front of every later fetch.
void TcpConnection::charge_line(std::int64_t bytes) {
  const TimePoint now = loop_.clock();
  if (urgent_until_ <= now) {
    const std::size_t first = static_cast<std::size_t>(Lane::proactive) * options_.queues;
    urgent_until_ = later(now, line_time(unsent(first, streams_.size())));
  }
  urgent_until_ = later(urgent_until_, line_time(bytes + std::min(bytes / 2, kDrained)));
}

// A fetch has gone out: others follow it, one a layer.
void TcpConnection::note_fetch() {
  last_fetch_ = loop_.clock();
  pace_proactive(true);
}

// Until the line has carried what higher lanes than this one have unsent in the kernel; none:
// nothing worth waiting for.
Duration TcpConnection::urgent_in_kernel(Lane lane) const {
  const std::size_t end = static_cast<std::size_t>(lane) * options_.queues;
  const Duration wait = line_time(unsent(0, end));
  return wait < kLeastWait ? Duration::zero() : std::min(wait, kLongestWait);
}

void TcpConnection::pump_later(Duration wait) {
  if (resume_timer_) loop_.cancel(resume_timer_);
  resume_timer_ = loop_.schedule_at(later(std::max(loop_.now(), loop_.clock()), wait),
                                    {[](void* self, std::uint64_t) {
                                       auto& connection = *static_cast<TcpConnection*>(self);
                                       connection.resume_timer_ = {};
                                       connection.pump();
                                     },
                                     this, 0});
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
    const auto lane = static_cast<Lane>(number++ / options_.queues);
    if (blocked || !entry.stream->pending()) {
      watch_writable(entry, false);
      continue;
    }
    // What the kernel still holds of higher lanes would share the line with this one.
    if (line_ > Bandwidth{} && lane > Lane::on_demand) {
      const Duration wait =
          std::max(urgent_in_kernel(lane), urgent_until_ - std::max(loop_.now(), loop_.clock()));
      if (wait > Duration::zero()) {
        pump_later(wait);
        watch_writable(entry, false);
        blocked = true;
        ++counters_.starved;
        continue;
      }
    }
    if (lane == Lane::proactive && proactive_paced_ && line_ > kSlow &&
        loop_.clock() - last_fetch_ > kFetching) {
      pace_proactive(false);
    }
    std::size_t written = 0;
    const std::string problem = entry.stream->write(kTurn, written);
    counters_.bytes_out += written;
    if (line_ > Bandwidth{} && lane <= Lane::on_demand && written > 0) {
      charge_line(static_cast<std::int64_t>(written));
      if (lane == Lane::on_demand) note_fetch();
    }
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
