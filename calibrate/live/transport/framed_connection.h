#pragma once
// What connections over ordered streams of frames have in common (TCP's sockets, the rings of
// shared memory): operations as frames, frames as arrivals, acknowledgements after the bytes lie in
// place, and the refusal of whatever names what is not there.

#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/live/transport/connection.h"
#include "calibrate/live/wire/frame.h"

namespace kvlane::live {

class FramedConnection : public Connection {
 public:
  FramedConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                   const ConnectionOptions& options);

  TransportLimits limits() const override;
  const ConnectionCounters& counters() const override { return counters_; }

 protected:
  struct Posted {
    const Operation* operation = nullptr;
    TimePoint begin{};
    std::size_t stream = 0;
  };
  struct Frame {
    FrameHead head;
    std::vector<std::byte> body;
    std::vector<EpochFragment> pieces;  // of ours: the payload; empty for read requests
  };

  std::size_t stream_of(const Operation& operation) const {
    return index(operation.lane) * options_.queues + operation.queue % options_.queues;
  }
  // Counts it and remembers it as posted.
  Frame frame_of(const Operation& operation);
  // A frame's first byte leaves now.
  void mark_begin(std::uint64_t id);

  // A body has come: where its payload belongs (`pieces`; empty where it has no place any more).
  // A non-empty answer is why the peer is to be dropped; likewise below.
  std::string check_body(const FrameHead& head, std::span<const std::byte> body,
                         std::vector<EpochFragment>& pieces);
  // Everything of a frame is here. `dropped`: its payload had no place.
  std::string accept(std::size_t stream, const FrameHead& head, std::span<const std::byte> body,
                     bool dropped);
  // The peer wants these pieces of ours, which exist.
  virtual void answer_read(std::size_t stream, const FrameHead& request,
                           std::vector<EpochFragment> pieces) = 0;
  // Acknowledgements of a stream, ready to leave; empty when there are none.
  std::vector<std::byte> take_acks(std::size_t stream);
  bool has_acks(std::size_t stream) const { return !acks_[stream].empty(); }

  std::vector<EpochFragment> remote_pieces(const std::vector<Fragment>& fragments) const;
  std::vector<EpochFragment> local_pieces(const std::vector<Fragment>& fragments) const;
  std::uint32_t payload_checksum(const std::vector<EpochFragment>& pieces) const;
  void lose(const std::string& reason);  // once

  WallLoop& loop_;
  ConnectionOwner& owner_;
  ConnectionMemory memory_;
  ConnectionOptions options_;
  std::unordered_map<std::uint64_t, Posted> posted_;
  ConnectionCounters counters_;
  bool closed_ = false, lost_ = false;

 private:
  std::string accept_data(std::size_t stream, const FrameHead& head,
                          std::span<const std::byte> body, bool dropped);
  std::string accept_read(std::size_t stream, const FrameHead& head,
                          std::span<const std::byte> body);
  std::string accept_reply(const FrameHead& head, bool dropped);
  std::string accept_acks(std::span<const std::byte> body);
  std::string outside(const EpochFragment& piece, const char* did) const;
  void acknowledge(std::size_t stream, std::uint64_t id, TransferStatus status);

  std::vector<std::vector<Ack>> acks_;  // by stream
};

}  // namespace kvlane::live
