#include "calibrate/live/shm/shm_connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace kvlane::live {
namespace {

// Bytes copied between two looks at what else there is to do: 30 us of one core.
constexpr std::int64_t kSlice = 256 << 10;

void signal(int event) {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the peer is awake.
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
}

}  // namespace

Mapping::Mapping(int fd, std::size_t bytes) : size_(bytes), fd_(fd) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    throw std::system_error(error, std::generic_category(), "mapping shared memory");
  }
  data_ = static_cast<std::byte*>(mapped);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

ShmConnection::ShmConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                             const ConnectionOptions& options, ShmSides sides)
    : FramedConnection(loop, owner, memory, options), sides_(std::move(sides)) {
  for (std::size_t i = 0; i < std::size_t{kLaneCount} * options_.queues; ++i) {
    streams_.push_back({RingWriter(sides_.peer_rings.data() + i * kRingStride),
                        RingReader(sides_.own_rings.data() + i * kRingStride),
                        {},
                        {}});
  }
  loop_.watch(sides_.own_event, EPOLLIN, *this);
  loop_.watch(sides_.socket, EPOLLIN | EPOLLRDHUP, *this);
  loop_.add(*this);
}

ShmConnection::~ShmConnection() { close(); }

void ShmConnection::close() {
  if (std::exchange(closed_, true)) return;
  loop_.remove(*this);
  if (!lost_) {
    loop_.unwatch(sides_.own_event);
    loop_.unwatch(sides_.socket);
  }
  for (const int fd : {sides_.own_event, sides_.peer_event, sides_.socket}) ::close(fd);
  streams_.clear();
  sides_.own_rings = Mapping();
  sides_ = ShmSides();
  posted_.clear();
}

void ShmConnection::drop(const std::string& reason) {
  if (lost_ || closed_) return;
  loop_.unwatch(sides_.own_event);
  loop_.unwatch(sides_.socket);
  for (Stream& stream : streams_) stream.queue.clear();
  lose(reason);
}

void ShmConnection::post(const Operation& operation) {
  if (closed_ || lost_) return;
  Frame frame = frame_of(operation);
  Out out;
  out.head = frame.head;
  out.body = std::move(frame.body);
  out.pieces = std::move(frame.pieces);
  streams_[stream_of(operation)].queue.push_back(std::move(out));
}

bool ShmConnection::cancel(std::uint64_t id) {
  const auto found = posted_.find(id);
  if (found == posted_.end()) return false;
  std::deque<Out>& queue = streams_[found->second.stream].queue;
  const auto out = std::find_if(queue.begin(), queue.end(),
                                [&](const Out& o) { return o.head.id == id && !o.started; });
  if (out == queue.end()) return false;
  queue.erase(out);
  posted_.erase(found);
  return true;
}

// The owner copies what was asked for into the asker's memory, then says so.
void ShmConnection::answer_read(std::size_t stream, const FrameHead& request,
                                std::vector<EpochFragment> pieces) {
  Out out;
  out.head.type = FrameType::read_reply;
  out.head.id = request.id;
  out.head.payload = request.payload;
  if (options_.checksum) out.head.payload_checksum = payload_checksum(pieces);
  out.pieces = std::move(pieces);
  streams_[stream].queue.push_back(std::move(out));
}

// True when everything of it lies in the peer's memory. What the peer never exposed is a broken
// invariant of ours; whether it still does, the peer says after it has the frame.
bool ShmConnection::copy_slice(Out& out, std::int64_t& budget) {
  while (out.piece < out.pieces.size() && budget > 0) {
    const Fragment& f = out.pieces[out.piece].fragment;
    const std::int64_t part = std::min(budget, f.length - out.piece_done);
    const std::int64_t offset = f.offset + out.piece_done;
    const RegionPlace* place = memory_.remote->find(f.region);
    // The peer's own figures: inside its region, and that inside of what is mapped.
    const bool inside =
        place != nullptr && offset + part <= place->length && place->offset >= 0 &&
        place->offset + place->length <= static_cast<std::int64_t>(sides_.peer_pool.size());
    if (inside) {
      std::memcpy(sides_.peer_pool.data() + place->offset + offset,
                  memory_.local->own(f.region, offset, part), static_cast<std::size_t>(part));
    }
    budget -= part;
    counters_.bytes_out += static_cast<std::uint64_t>(part);
    out.piece_done += part;
    if (out.piece_done == f.length) {
      ++out.piece;
      out.piece_done = 0;
    }
  }
  return out.piece == out.pieces.size();
}

void ShmConnection::queue_acks() {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (!has_acks(i)) continue;
    Out out;
    out.head.type = FrameType::acks;
    out.body = take_acks(i);
    streams_[i].queue.push_back(std::move(out));
  }
}

// The highest lane that has something to do gets a slice; then the loop looks around.
bool ShmConnection::advance() {
  if (closed_ || lost_) return false;
  queue_acks();
  std::int64_t budget = kSlice;
  bool told = false;
  bool more = false;
  for (Stream& stream : streams_) {
    while (!stream.queue.empty() && !stream.blocked) {
      Out& out = stream.queue.front();
      if (!std::exchange(out.started, true)) mark_begin(out.head.id);
      if (!copy_slice(out, budget)) {
        more = true;
        break;
      }
      if (!std::exchange(out.encoded, true)) {
        std::vector<std::byte> frame;
        encode_frame(out.head, out.body, frame);
        out.body = std::move(frame);
      }
      const std::size_t put =
          stream.out.put(std::span<const std::byte>(out.body).subspan(out.sent));
      if (put == SIZE_MAX) {
        drop("counts more bytes taken from a ring than were put there");
        return false;
      }
      told = told || put > 0;
      out.sent += put;
      counters_.bytes_out += put;
      if (out.sent < out.body.size()) {
        stream.blocked = true;
        ++counters_.starved;
        break;
      }
      stream.queue.pop_front();
    }
    if (more) break;
  }
  if (told) signal(sides_.peer_event);
  return more;
}

std::string ShmConnection::take_frames(std::size_t number) {
  Stream& stream = streams_[number];
  for (;;) {
    if (stream.frame.size() < kHeadBytes) return {};
    FrameHead head;
    if (std::string problem =
            decode_head(std::span<const std::byte>(stream.frame).first(kHeadBytes), head);
        !problem.empty()) {
      return problem;
    }
    const std::size_t whole = kHeadBytes + head.body;
    if (stream.frame.size() < whole) return {};
    std::vector<std::byte> frame(stream.frame.begin(),
                                 stream.frame.begin() + static_cast<std::ptrdiff_t>(whole));
    stream.frame.erase(stream.frame.begin(),
                       stream.frame.begin() + static_cast<std::ptrdiff_t>(whole));
    const std::span<const std::byte> bytes(frame);
    const auto body = bytes.subspan(kHeadBytes);
    if (!body_holds(bytes, head, body))
      return "a frame whose head and body do not fit its checksum";
    std::vector<EpochFragment> pieces;
    std::string problem = check_body(head, body, pieces);
    if (problem.empty()) {
      counters_.bytes_in += static_cast<std::uint64_t>(head.payload);
      problem = accept(number, head, body, pieces.empty() && head.payload > 0);
    }
    if (!problem.empty() || closed_ || lost_) return problem;
  }
}

std::string ShmConnection::read_ring(std::size_t number) {
  for (;;) {
    if (closed_ || lost_) return {};
    Stream& stream = streams_[number];
    const std::size_t there = stream.in.there();
    if (there == SIZE_MAX) return "counts more bytes in a ring than it holds";
    if (there == 0) return {};
    const std::span<const std::byte> part = stream.in.front(there);
    stream.frame.insert(stream.frame.end(), part.begin(), part.end());
    counters_.bytes_in += part.size();
    if (stream.in.take(part.size())) signal(sides_.peer_event);
    if (std::string problem = take_frames(number); !problem.empty()) return problem;
  }
}

void ShmConnection::on_ready(int fd, std::uint32_t) {
  if (fd == sides_.socket) {
    // Nothing is ever sent there: it is readable when the peer has gone. What it put into the
    // rings before counts first.
    for (std::size_t i = 0; i < streams_.size() && !closed_ && !lost_; ++i) {
      if (const std::string problem = read_ring(i); !problem.empty()) return drop(problem);
    }
    return drop("closed the connection");
  }
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].blocked = false;
    if (const std::string problem = read_ring(i); !problem.empty()) return drop(problem);
    if (closed_ || lost_) return;
  }
}

}  // namespace kvlane::live
