#pragma once
// A connection through shared memory. Private to the files of ShmBackend.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/shm/ring.h"
#include "calibrate/live/transport/framed_connection.h"

namespace kvlane::live {

// A mapping of a descriptor, and the descriptor.
class Mapping {
 public:
  Mapping() = default;
  // Takes the descriptor over. Throws std::system_error.
  Mapping(int fd, std::size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
};

// What both processes share of one connection.
struct ShmSides {
  Mapping own_rings, peer_rings, peer_pool;
  int own_event = -1, peer_event = -1, socket = -1;
};

class ShmConnection final : public FramedConnection, public Pollable, public Background {
 public:
  ShmConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                const ConnectionOptions& options, ShmSides sides);
  ~ShmConnection() override;

  void post(const Operation& operation) override;
  bool cancel(std::uint64_t id) override;
  void close() override;
  bool fenced() const override { return false; }

  void on_ready(int fd, std::uint32_t events) override;
  bool advance() override;

 private:
  struct Out {
    FrameHead head;
    std::vector<std::byte> body;
    std::vector<EpochFragment> pieces;  // of ours; they go to the same offsets at the peer
    std::size_t piece = 0;
    std::int64_t piece_done = 0;
    bool started = false, encoded = false;
    std::size_t sent = 0;
  };
  struct Stream {
    RingWriter out;
    RingReader in;
    std::deque<Out> queue;
    std::vector<std::byte> frame;  // of the peer, as far as it has come
    bool blocked = false;          // the ring is full
  };

  void answer_read(std::size_t stream, const FrameHead& request,
                   std::vector<EpochFragment> pieces) override;
  bool copy_slice(Out& out, std::int64_t& budget);
  std::string read_ring(std::size_t number);
  std::string take_frames(std::size_t number);
  void queue_acks();
  void drop(const std::string& reason);

  ShmSides sides_;
  std::vector<Stream> streams_;
};

}  // namespace kvlane::live
