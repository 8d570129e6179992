#pragma once
// One TCP stream of a connection, one (lane, queue): frames go out in the order given, what comes
// in is put where it belongs. Bytes of regions are sent from where they lie and received to where
// they belong; only what arrived together with a head is copied once.

#include <sys/uio.h>

#include <deque>
#include <string>
#include <vector>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/memory/pool.h"
#include "calibrate/live/wire/frame.h"

namespace kvlane::live::tcp {

// Whom a stream tells. A non-empty answer is why the peer is to be dropped.
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  // The frame's first byte is about to be given to the kernel.
  virtual void started(std::uint64_t id) = 0;
  // Body of a frame: says where the payload goes (pieces; empty: it is dropped).
  virtual std::string on_body(std::size_t stream, const FrameHead& head,
                              std::span<const std::byte> body,
                              std::vector<EpochFragment>& pieces) = 0;
  // Everything of the frame is in place. `dropped`: its bytes had no place any more.
  virtual std::string on_frame(std::size_t stream, const FrameHead& head,
                               std::span<const std::byte> body, bool dropped) = 0;
};

class Stream {
 public:
  Stream(std::size_t number, int fd, RegionTable& regions, StreamOwner& owner);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int fd() const { return fd_; }
  // `pieces`: its payload, of our regions.
  void queue(const FrameHead& head, std::span<const std::byte> body,
             std::vector<EpochFragment> pieces);
  // False: some of it has left.
  bool withdraw(std::uint64_t id);
  bool pending() const { return !out_.empty(); }
  // Writes until the socket or `budget` bytes are full; the number written, or the error.
  std::string write(std::size_t budget, std::size_t& written);
  // Reads until the socket or the budget is empty.
  std::string read(std::size_t budget, std::size_t& got);

 private:
  struct Out {
    std::uint64_t id = 0;
    std::vector<std::byte> head;
    std::vector<EpochFragment> pieces;
    std::size_t head_sent = 0, piece = 0;
    std::int64_t piece_sent = 0;
    bool started = false;
  };
  struct Place {
    std::byte* at = nullptr;
    std::size_t length = 0;
  };
  enum class Phase : std::uint8_t { head, body, payload };

  std::size_t gather(std::vector<iovec>& parts);
  void advance(std::size_t sent);
  std::string read_some(std::size_t budget, std::size_t& got);
  std::string consume();
  std::string end_frame();
  Place next_place();
  void placed(std::size_t bytes);
  void wake_when_worth_it();

  std::size_t number_;
  int fd_;
  RegionTable& regions_;
  StreamOwner& owner_;
  std::deque<Out> out_;
  std::vector<Out> spare_;
  std::vector<iovec> parts_;

  Phase phase_ = Phase::head;
  FrameHead head_;
  std::vector<std::byte> buffer_;  // read ahead
  std::size_t begin_ = 0, end_ = 0;
  std::vector<std::byte> frame_;  // head and body of the frame at hand
  std::vector<EpochFragment> pieces_;
  std::size_t piece_ = 0;
  std::int64_t piece_got_ = 0, payload_left_ = 0;
  int wakes_at_ = 1;  // SO_RCVLOWAT
  bool dropped_ = false;
};

}  // namespace kvlane::live::tcp
