#include "calibrate/live/session/session.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::int64_t kMostPeerNs = std::int64_t{1} << 60U;  // of its steady clock
constexpr std::size_t kHeadBytes = 8;                         // body length, kind, magic
constexpr std::uint8_t kMagic[3] = {'k', 'v', 'l'};
constexpr std::uint32_t kMostBefore = 4096;  // bytes of a frame from someone who may be anybody
constexpr std::uint32_t kMostAfter = 64U << 20U;

void mark(void* done, std::uint64_t) { *static_cast<bool*>(done) = true; }

}  // namespace

const char* to_string(FrameKind kind) {
  static constexpr const char* kNames[] = {
      "hello",         "proof",   "refuse",  "config",    "accept",    "transport", "offer",
      "ready",         "ping",    "pong",    "heartbeat", "prepare",   "prepared",  "start",
      "prefill_ended", "run_end", "records", "run_done",  "push_fail", "abort",     "bye"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(FrameKind::last) + 1);
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t zero_ns(const WallLoop& loop) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(loop.zero().time_since_epoch())
      .count();
}

Session::Session(WallLoop& loop, int fd, Options options)
    : loop_(loop), fd_(fd), options_(std::move(options)) {
  loop_.watch(fd_, EPOLLIN, *this);
  take_up(FrameKind::heartbeat, [](std::span<const std::byte>) {});
  const auto reason = [this](const char* how, std::span<const std::byte> body) {
    Reader in(body);
    const std::string why = in.get_text(kMostBefore);
    end(fmt::format("{}: {}", how, in.ok() ? why : "without a reason"));
  };
  take_up(FrameKind::refuse, [reason](std::span<const std::byte> b) { reason("refused", b); });
  take_up(FrameKind::abort, [reason](std::span<const std::byte> b) { reason("gave up", b); });
}

Session::~Session() {
  if (beat_timer_) loop_.cancel(beat_timer_);
  if (fd_ >= 0) {
    if (ended_.empty()) loop_.unwatch(fd_);
    ::close(fd_);
  }
}

void Session::send(FrameKind kind, std::span<const std::byte> body) {
  if (!ended_.empty()) return;
  Writer out(out_);
  out.put(static_cast<std::uint32_t>(body.size()));
  out.put(kind);
  for (const std::uint8_t byte : kMagic) out.put(byte);
  out.put_bytes(body);
  flush();
}

void Session::send_text(FrameKind kind, std::string_view text) {
  std::vector<std::byte> body;
  Writer(body).put_text(text.substr(0, kMostBefore - 16));
  send(kind, body);
}

void Session::flush() {
  while (out_sent_ < out_.size()) {
    const ssize_t n =
        ::send(fd_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return end(fmt::format("sending: {}", std::strerror(errno)));
      break;
    }
    out_sent_ += static_cast<std::size_t>(n);
  }
  const bool left = out_sent_ < out_.size();
  if (!left) {
    out_.clear();
    out_sent_ = 0;
  }
  if (left != wants_write_) {
    wants_write_ = left;
    loop_.change(fd_, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void Session::end(const std::string& reason) {
  if (!ended_.empty()) return;
  ended_ = reason;
  loop_.unwatch(fd_);
  if (beat_timer_) loop_.cancel(beat_timer_);
  beat_timer_ = {};
  if (waiting_) {
    loop_.stop();
  } else if (told_) {
    told_(reason);
  }
}

void Session::take_up(FrameKind kind, std::function<void(std::span<const std::byte>)> taker) {
  takers_[kind] = std::move(taker);
}

// Whole frames out of what has come.
std::string Session::parse() {
  std::size_t at = 0;
  std::string problem;
  while (in_.size() - at >= kHeadBytes && ended_.empty()) {
    Reader head(std::span<const std::byte>(in_).subspan(at, kHeadBytes));
    const auto length = head.get<std::uint32_t>();
    const auto kind = head.get<std::uint8_t>();
    const std::span<const std::byte> magic = head.get_bytes(3);
    if (std::memcmp(magic.data(), kMagic, 3) != 0 ||
        kind > static_cast<std::uint8_t>(FrameKind::last)) {
      problem = "does not speak kvlane's protocol";
      break;
    }
    if (length > (trusted_ ? kMostAfter : kMostBefore)) {
      problem = fmt::format("sent a frame of {} bytes where at most {} belong", length,
                            trusted_ ? kMostAfter : kMostBefore);
      break;
    }
    if (in_.size() - at - kHeadBytes < length) break;
    const auto begin = in_.begin() + static_cast<std::ptrdiff_t>(at + kHeadBytes);
    std::vector<std::byte> body(begin, begin + static_cast<std::ptrdiff_t>(length));
    at += kHeadBytes + length;
    take(static_cast<FrameKind>(kind), std::move(body));
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  return problem;
}

void Session::take(FrameKind kind, std::vector<std::byte> body) {
  if (const auto taker = takers_.find(kind); taker != takers_.end()) {
    taker->second(body);
    return;
  }
  inbox_.push_back({kind, std::move(body)});
  if (waiting_) loop_.stop();
}

void Session::on_ready(int, std::uint32_t) {
  std::array<std::byte, std::size_t{64} << 10U> buffer;
  for (;;) {
    const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    heard_ = std::max(heard_, loop_.clock());
    if (n <= 0) {
      // What came before the end counts first: a refusal, say.
      const std::string problem = parse();
      return end(!problem.empty() ? problem
                 : n == 0         ? "closed the connection"
                                  : fmt::format("lost: {}", std::strerror(errno)));
    }
    in_.insert(in_.end(), buffer.begin(), buffer.begin() + n);
    if (in_.size() > (trusted_ ? 2 * kMostAfter : 4 * kMostBefore)) break;
  }
  if (const std::string problem = parse(); !problem.empty()) return end(problem);
  if (ended_.empty()) flush();
}

std::vector<std::byte> Session::wait(FrameKind kind, Duration limit) {
  const TimePoint from = std::max(loop_.now(), loop_.clock());
  bool late = false;
  struct Late {
    WallLoop* loop;
    bool* late;
  } context{&loop_, &late};
  struct Guard {
    WallLoop& loop;
    TimerId timer;
    ~Guard() { loop.cancel(timer); }
  } guard{loop_, loop_.schedule_at(later(from, limit), {[](void* c, std::uint64_t) {
                                                          auto& it = *static_cast<Late*>(c);
                                                          *it.late = true;
                                                          it.loop->stop();
                                                        },
                                                        &context, 0})};
  for (;;) {
    if (!inbox_.empty()) {
      Frame frame = std::move(inbox_.front());
      inbox_.pop_front();
      if (frame.kind == kind) return std::move(frame.body);
      throw PeerError(fmt::format("{} sent '{}' where '{}' was due", options_.peer,
                                  to_string(frame.kind), to_string(kind)));
    }
    if (!ended_.empty()) {
      throw PeerError(fmt::format("{} {}", options_.peer, ended_));
    }
    if (late) {
      throw PeerError(fmt::format("{}: no '{}' within {:.1f} s", options_.peer, to_string(kind),
                                  to_seconds(limit)));
    }
    waiting_ = true;
    loop_.hold();
    loop_.run();
    loop_.release();
    waiting_ = false;
    if (check_) check_();
  }
}

void Session::trust() {
  take_up(FrameKind::ping, [this](std::span<const std::byte> body) {
    if (body.size() != 8) return end("sent a ping that is none");
    std::vector<std::byte> answer(body.begin(), body.end());
    Writer(answer).put(steady_ns());
    send(FrameKind::pong, answer);
  });
  trusted_ = true;
  heard_ = loop_.clock();
  beat();
}

void Session::breathe() {
  if (trusted_ && ended_.empty() && loop_.clock() - beaten_ > options_.lease / 5) {
    beaten_ = loop_.clock();
    send(FrameKind::heartbeat);
  }
}

void Session::beat() {
  // We may have been busy elsewhere: what has come meanwhile counts.
  if (loop_.clock() - heard_ > options_.lease) on_ready(fd_, EPOLLIN);
  if (!ended_.empty()) return;
  const Duration silent = loop_.clock() - heard_;
  if (silent > options_.lease) {
    return end(fmt::format("was not heard of for {:.1f} s (lease {:.1f} s): stopped or cut off",
                           to_seconds(silent), to_seconds(options_.lease)));
  }
  beaten_ = loop_.clock();
  send(FrameKind::heartbeat);
  if (!ended_.empty()) return;
  beat_timer_ = loop_.schedule_at(later(std::max(loop_.now(), loop_.clock()), options_.lease / 5),
                                  {[](void* self, std::uint64_t) {
                                     auto& session = *static_cast<Session*>(self);
                                     session.beat_timer_ = {};
                                     session.beat();
                                   },
                                   this, 0});
}

Session::ClockOffset Session::measure_clock(int rounds, Duration limit) {
  ClockOffset best;
  best.round_trip_ns = -1;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::byte> body;
    const std::int64_t asked = steady_ns();
    Writer(body).put(asked);
    send(FrameKind::ping, body);
    const std::vector<std::byte> answer = wait(FrameKind::pong, limit);
    const std::int64_t back = steady_ns();
    Reader in(answer);
    const auto sent = in.get<std::int64_t>();
    const auto peer = in.get<std::int64_t>();
    if (!in.done() || sent != asked || peer < 0 || peer > kMostPeerNs) {
      throw PeerError(options_.peer + " answered a ping with something else");
    }
    const std::int64_t round_trip = back - sent;
    if (best.round_trip_ns >= 0 && round_trip >= best.round_trip_ns) continue;
    best.round_trip_ns = round_trip;
    best.peer_minus_own_ns = peer - (sent + round_trip / 2);
    best.error_ns = (round_trip + 1) / 2;
  }
  return best;
}

// One turn of the loop at a time: whatever else stops it is not for us.
void Session::turn_while(const std::function<bool()>& wanted, Duration limit) {
  bool late = false;
  const TimerId timer =
      loop_.schedule_at(later(std::max(loop_.now(), loop_.clock()), limit), {&mark, &late, 0});
  while (wanted() && !late) {
    loop_.schedule_at(
        later(std::max(loop_.now(), loop_.clock()), std::chrono::milliseconds(1)),
        {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop_, 0});
    loop_.run();
  }
  loop_.cancel(timer);
}

void Session::part(Duration limit) {
  told_ = nullptr;
  send(FrameKind::bye);
  turn_while([this] { return ended_.empty(); }, limit);
  close();
}

void Session::close(Duration limit) {
  const auto queued = [this] { return ended_.empty() && out_sent_ < out_.size(); };
  if (queued()) turn_while(queued, limit);
  if (ended_.empty()) {
    told_ = nullptr;
    end("closed here");
  }
}

}  // namespace kvlane::live
