#pragma once
// The control channel between two roles: one TCP stream that carries everything but KV. Frames of a
// kind and a body; heartbeats both ways and a lease: a peer of which nothing is heard for its lease
// is gone, whatever its connections say. Data never waits behind it, nor it behind data.
//
// The role's main line is sequential: wait() runs the loop until a frame of the kind has come, and
// throws what ended the session instead: a refusal, an abort, a loss, a deadline.

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/wire/bytes.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {

// A peer that cannot or may not take part, or has gone: exit status 1.
class PeerError : public RunError {
 public:
  using RunError::RunError;
};

enum class FrameKind : std::uint8_t {
  hello,      // protocol, version, nonce
  proof,      // HMAC over both nonces
  refuse,     // reason; the sender closes
  config,     // what both must have alike, by name
  accept,     // what the passive side can do
  transport,  // which of it the active side has chosen
  offer,      // of a backend
  ready,
  ping,  // answered at once, with the answerer's clock
  pong,
  heartbeat,
  prepare,        // of a run: regions are made and filled
  prepared,       // where the peer's regions lie
  start,          // time zero by the receiver's clock
  prefill_ended,  // a request, for the routers of others
  run_end,        // drain and send the records
  records,
  run_done,
  push_fail,  // a request and why
  abort,      // reason; the run is over on both sides
  bye,
  last = bye,
};
const char* to_string(FrameKind kind);

class Session final : public Pollable {
 public:
  struct Options {
    Duration lease = std::chrono::seconds(5);
    std::string peer;  // in errors: "prefill at 10.0.0.1:18515"
  };

  // Takes over the connected socket; `loop` outlives it.
  Session(WallLoop& loop, int fd, Options options);
  ~Session() override;

  void send(FrameKind kind, std::span<const std::byte> body = {});
  void send_text(FrameKind kind, std::string_view text);
  // The body of the next frame of this kind. Frames of other kinds that nobody takes up end the
  // session. Throws PeerError.
  std::vector<std::byte> wait(FrameKind kind, Duration limit);
  // Frames of the kind go there, at once, instead of to wait().
  void take_up(FrameKind kind, std::function<void(std::span<const std::byte>)> taker);
  // Called at every turn of a wait(); may throw.
  void on_turn(std::function<void()> check) { check_ = std::move(check); }
  // From now on: heartbeats, the lease, large frames.
  void trust();
  bool trusted() const { return trusted_; }
  // A heartbeat when one is due, for whoever keeps the loop from running.
  void breathe();
  // Called once when the session has ended for a reason that nobody waited for.
  void on_end(std::function<void(const std::string& reason)> told) { told_ = std::move(told); }
  const std::string& ended() const { return ended_; }
  // Says goodbye and waits for the peer to go, for at most `limit`: whoever closed its other
  // sockets before the peer has read the goodbye would seem lost to it. Then closes.
  void part(Duration limit = std::chrono::seconds(1));
  // Sends what is queued, for at most `limit`, then closes.
  void close(Duration limit = std::chrono::milliseconds(500));

  // The peer's clock against ours, from the fastest of `rounds` pings; needs the peer's loop to
  // run. The error is half of that round trip: what the two ways may differ by.
  struct ClockOffset {
    std::int64_t peer_minus_own_ns = 0;
    std::int64_t error_ns = 0;
    std::int64_t round_trip_ns = 0;
  };
  ClockOffset measure_clock(int rounds, Duration limit);

  const std::string& peer() const { return options_.peer; }
  void rename(std::string peer) { options_.peer = std::move(peer); }
  int fd() const { return fd_; }

  void on_ready(int fd, std::uint32_t events) override;

 private:
  struct Frame {
    FrameKind kind;
    std::vector<std::byte> body;
  };
  void turn_while(const std::function<bool()>& wanted, Duration limit);
  void flush();
  void take(FrameKind kind, std::vector<std::byte> body);
  void end(const std::string& reason);
  void beat();
  std::string parse();

  WallLoop& loop_;
  int fd_;
  Options options_;
  std::vector<std::byte> in_, out_;
  std::size_t out_sent_ = 0;
  std::deque<Frame> inbox_;
  std::map<FrameKind, std::function<void(std::span<const std::byte>)>> takers_;
  std::function<void(const std::string&)> told_;
  std::function<void()> check_;
  std::string ended_;
  bool waiting_ = false, trusted_ = false, wants_write_ = false;
  TimerId beat_timer_;
  TimePoint heard_{}, beaten_{};
};

// Nanoseconds of this host's steady clock.
std::int64_t steady_ns();
// Time zero of a loop by it.
std::int64_t zero_ns(const WallLoop& loop);

}  // namespace kvlane::live
