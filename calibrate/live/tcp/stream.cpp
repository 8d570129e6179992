#include "calibrate/live/tcp/stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvlane::live::tcp {
namespace {

constexpr std::size_t kReadAhead = std::size_t{256} << 10U;
constexpr std::size_t kLookAhead = std::size_t{4} << 10U;  // beside a payload that is read in place
constexpr std::size_t kMostParts = 256;                    // pieces of one system call
constexpr std::size_t kMostSpare = 64;
// Pieces below this are copied together for the kernel, and apart on the other side. On loopback
// rows of 512 bytes took 3.1 CPU seconds a GB as pieces of system calls and 1.5 so; pieces of 4 KiB
// 0.85 and 1.0 (calibrate link --fragments 256,2048).
constexpr std::int64_t kPacked = 2048;
// Bytes of a long payload for which a slow link wakes the process: otherwise each packet does, 8000
// times a second at 100 Mbit/s.
constexpr int kWakesAt = 32 << 10U;

// What has no place any more is read into here.
std::array<std::byte, std::size_t{64} << 10U>& nowhere() {
  static std::array<std::byte, std::size_t{64} << 10U> bytes;
  return bytes;
}

std::string error_text(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

}  // namespace

Stream::Stream(std::size_t number, int fd, RegionTable& regions, StreamOwner& owner)
    : number_(number), fd_(fd), regions_(regions), owner_(owner), buffer_(kReadAhead) {}

Stream::~Stream() { ::close(fd_); }

void Stream::queue(const FrameHead& head, std::span<const std::byte> body,
                   std::vector<EpochFragment> pieces) {
  if (spare_.empty()) {
    out_.emplace_back();
  } else {
    out_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  Out& out = out_.back();
  out.id = head.id;
  out.head.clear();
  encode_frame(head, body, out.head);
  out.pieces = std::move(pieces);
  const auto count = static_cast<std::int64_t>(out.pieces.size());
  if (count > 1 && head.payload / count < kPacked) {
    std::size_t at = out.head.size();
    out.head.resize(at + static_cast<std::size_t>(head.payload));
    for (const EpochFragment& piece : out.pieces) {
      const Fragment& f = piece.fragment;
      std::memcpy(out.head.data() + at, regions_.own(f.region, f.offset, f.length),
                  static_cast<std::size_t>(f.length));
      at += static_cast<std::size_t>(f.length);
    }
    out.pieces.clear();
  }
  out.head_sent = out.piece = 0;
  out.piece_sent = 0;
  out.started = false;
}

bool Stream::withdraw(std::uint64_t id) {
  const auto found = std::find_if(out_.begin(), out_.end(),
                                  [&](const Out& out) { return out.id == id && !out.started; });
  if (found == out_.end()) return false;
  out_.erase(found);
  return true;
}

// The next bytes to send, as many pieces as one call takes.
std::size_t Stream::gather(std::vector<iovec>& parts) {
  std::size_t bytes = 0;
  for (Out& out : out_) {
    if (parts.size() >= kMostParts) break;
    if (!std::exchange(out.started, true)) owner_.started(out.id);
    if (out.head_sent < out.head.size()) {
      parts.push_back({out.head.data() + out.head_sent, out.head.size() - out.head_sent});
      bytes += parts.back().iov_len;
    }
    std::int64_t skip = out.piece_sent;
    for (std::size_t p = out.piece; p < out.pieces.size() && parts.size() < kMostParts; ++p) {
      const EpochFragment& piece = out.pieces[p];
      const std::int64_t length = piece.fragment.length - skip;
      parts.push_back({regions_.own(piece.fragment.region, piece.fragment.offset + skip, length),
                       static_cast<std::size_t>(length)});
      bytes += parts.back().iov_len;
      skip = 0;
    }
  }
  return bytes;
}

void Stream::advance(std::size_t sent) {
  while (sent > 0) {
    Out& out = out_.front();
    const std::size_t head = std::min(sent, out.head.size() - out.head_sent);
    out.head_sent += head;
    sent -= head;
    while (sent > 0 && out.piece < out.pieces.size()) {
      const std::int64_t left = out.pieces[out.piece].fragment.length - out.piece_sent;
      const auto part = std::min(left, static_cast<std::int64_t>(sent));
      out.piece_sent += part;
      sent -= static_cast<std::size_t>(part);
      if (part == left) {
        ++out.piece;
        out.piece_sent = 0;
      }
    }
    if (out.head_sent < out.head.size() || out.piece < out.pieces.size()) return;
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(out));
    out_.pop_front();
  }
}

std::string Stream::write(std::size_t budget, std::size_t& written) {
  while (!out_.empty() && written < budget) {
    parts_.clear();
    const std::size_t wanted = gather(parts_);
    msghdr message{};
    message.msg_iov = parts_.data();
    message.msg_iovlen = parts_.size();
    const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EAGAIN) return {};
      if (errno == EINTR) continue;
      return error_text("sending");
    }
    written += static_cast<std::size_t>(n);
    advance(static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) < wanted) return {};  // the socket is full
  }
  return {};
}

// Where the payload's next bytes go.
Stream::Place Stream::next_place() {
  if (!dropped_ && piece_ < pieces_.size()) {
    const EpochFragment& piece = pieces_[piece_];
    const std::int64_t left = piece.fragment.length - piece_got_;
    // Looked up anew each time: the region may have been withdrawn since the head came.
    std::byte* at =
        regions_.find(piece.fragment.region, piece.epoch, piece.fragment.offset + piece_got_, left);
    if (at != nullptr) return {at, static_cast<std::size_t>(left)};
    dropped_ = true;
  }
  return {nowhere().data(), std::min(nowhere().size(), static_cast<std::size_t>(payload_left_))};
}

void Stream::placed(std::size_t bytes) {
  payload_left_ -= static_cast<std::int64_t>(bytes);
  auto left = static_cast<std::int64_t>(bytes);
  while (left > 0 && piece_ < pieces_.size()) {
    const std::int64_t part = std::min(left, pieces_[piece_].fragment.length - piece_got_);
    piece_got_ += part;
    left -= part;
    if (piece_got_ == pieces_[piece_].fragment.length) {
      ++piece_;
      piece_got_ = 0;
    }
  }
}

std::string Stream::end_frame() {
  const std::span<const std::byte> body(frame_.data() + kHeadBytes, frame_.size() - kHeadBytes);
  std::string problem = owner_.on_frame(number_, head_, body, dropped_);
  frame_.clear();
  phase_ = Phase::head;
  return problem;
}

// Takes what was read ahead as far as it goes.
std::string Stream::consume() {
  for (;;) {
    const std::size_t there = end_ - begin_;
    if (phase_ == Phase::payload) {
      if (payload_left_ == 0) {
        if (std::string problem = end_frame(); !problem.empty()) return problem;
        continue;
      }
      if (there == 0) return {};
      const Place place = next_place();
      const std::size_t part = std::min(there, place.length);
      std::memcpy(place.at, buffer_.data() + begin_, part);
      begin_ += part;
      placed(part);
      continue;
    }
    const std::size_t whole = phase_ == Phase::head ? kHeadBytes : kHeadBytes + head_.body;
    const std::size_t part = std::min(there, whole - frame_.size());
    frame_.insert(frame_.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                  buffer_.begin() + static_cast<std::ptrdiff_t>(begin_ + part));
    begin_ += part;
    if (frame_.size() < whole) return {};
    if (phase_ == Phase::head) {
      if (std::string problem = decode_head(frame_, head_); !problem.empty()) return problem;
      phase_ = Phase::body;
      continue;
    }
    const std::span<const std::byte> frame(frame_);
    const auto body = frame.subspan(kHeadBytes);
    if (!body_holds(frame, head_, body))
      return "a frame whose head and body do not fit its checksum";
    pieces_.clear();
    std::string problem = owner_.on_body(number_, head_, body, pieces_);
    if (!problem.empty()) return problem;
    piece_ = 0;
    piece_got_ = 0;
    payload_left_ = head_.payload;
    dropped_ = pieces_.empty() && payload_left_ > 0;
    phase_ = Phase::payload;
  }
}

// Never more than the payload still has: what follows it may be awaited.
void Stream::wake_when_worth_it() {
  const int wanted = phase_ == Phase::payload && payload_left_ >= kWakesAt ? kWakesAt : 1;
  if (std::exchange(wakes_at_, wanted) == wanted) return;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
}

std::string Stream::read(std::size_t budget, std::size_t& got) {
  std::string problem = read_some(budget, got);
  if (problem.empty()) wake_when_worth_it();
  return problem;
}

std::string Stream::read_some(std::size_t budget, std::size_t& got) {
  while (got < budget) {
    begin_ = end_ = 0;
    parts_.clear();
    std::size_t in_place = 0;
    if (phase_ == Phase::payload) {
      // Straight to where it belongs, and what follows it into the buffer.
      const std::size_t piece = piece_;
      const std::int64_t piece_got = piece_got_;
      const std::int64_t left = payload_left_;
      while (payload_left_ > 0 && parts_.size() + 1 < kMostParts) {
        const Place place = next_place();
        if (dropped_ && !parts_.empty()) break;
        if (std::cmp_less(place.length, kPacked) && std::cmp_greater(payload_left_, place.length)) {
          break;  // by way of the buffer
        }
        parts_.push_back({place.at, place.length});
        in_place += place.length;
        placed(place.length);
        if (dropped_) break;
      }
      piece_ = piece;
      piece_got_ = piece_got;
      payload_left_ = left;
    }
    parts_.push_back({buffer_.data(), in_place > 0 ? kLookAhead : kReadAhead});
    msghdr message{};
    message.msg_iov = parts_.data();
    message.msg_iovlen = parts_.size();
    const ssize_t n = ::recvmsg(fd_, &message, MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EAGAIN) return {};
      if (errno == EINTR) continue;
      return error_text("receiving");
    }
    if (n == 0) {
      return phase_ == Phase::head && frame_.empty()
                 ? "closed the connection"
                 : "closed the connection in the middle of a frame";
    }
    const auto bytes = static_cast<std::size_t>(n);
    got += bytes;
    const std::size_t direct = std::min(bytes, in_place);
    if (direct > 0) placed(direct);
    end_ = bytes - direct;
    if (std::string problem = consume(); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace kvlane::live::tcp
