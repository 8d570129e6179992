#pragma once
// What a backend (tcp/, shm/, rdma/) does for one peer. Everything that is the same on every wire
// stands above it, in LiveTransport: numbering, deadlines, message encoding, metrics, trace,
// verification. A Connection carries out operations and reports, from the loop:
//   completed()  once for each operation posted, in any order between queues. `ok` only when the
//                bytes lie in the peer's memory (a read: in ours) and its message was given to the
//                peer's owner;
//   arrived()    a message of the peer, after the data that was posted before it on its (lane,
//                queue) lies in our memory;
//   lost()       once: the peer is gone, with the reason in words. Operations not yet completed
//                never are; the owner fails them itself.
// Nothing of ours is written by the peer once close() has returned, where fenced().

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/memory/pool.h"
#include "calibrate/live/wire/message.h"
#include "sim/port/transport.h"

namespace kvlane::live {

// Owned by the LiveTransport, stays in place until it was completed or the connection is closed.
struct Operation {
  std::uint64_t id = 0;
  TransferOp op = TransferOp::write;
  Lane lane = Lane::control;
  std::uint32_t queue = 0;
  // Ascending, not overlapping. Same region and offsets at both ends. write, write_with_imm, send:
  // from here to there; read: from there to here. A send's bytes land like a write's: the receiver
  // has asked for them.
  std::vector<Fragment> fragments;
  std::int64_t bytes = 0;          // of the fragments together
  std::vector<std::byte> message;  // encoded (wire/message.h); empty for write and read
};

// In place of the time at which bytes lay in place, of a wire that does not tell: the completion's
// counts.
inline constexpr TimePoint kNotTold = TimePoint::max();

class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // `begin`: when the first byte was given to the wire; `applied`: when the last lay in place, by
  // the clock of the side where it landed (both loops count from the same moment).
  virtual void completed(std::uint64_t id, TransferStatus status, TimePoint begin,
                         TimePoint applied) = 0;
  // `message` is valid during the call.
  virtual void arrived(Lane lane, std::uint32_t queue, std::span<const std::byte> message) = 0;
  virtual void lost(const std::string& reason) = 0;
};

struct ConnectionCounters {
  std::uint64_t bytes_out = 0, bytes_in = 0;  // payload
  std::uint64_t operations = 0, fragments = 0, work_requests = 0, doorbells = 0;
  std::uint64_t packed = 0;   // operations whose scattered pieces were copied together first
  std::uint64_t starved = 0;  // turns in which credits or room were missing
  std::uint64_t checksum_errors = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Never blocks and never calls back.
  virtual void post(const Operation& operation) = 0;
  // False: it has left already.
  virtual bool cancel(std::uint64_t id) = 0;
  virtual void close() = 0;
  // What the line is believed to carry, payload. Where queues behind the lanes know no priority (a
  // kernel's, a switch's), background bytes are kept out of them by it.
  virtual void set_line(Bandwidth) {}
  // False: the peer may write on after close() (it maps our memory); what it could reach is not
  // handed out again.
  virtual bool fenced() const { return true; }
  virtual TransportLimits limits() const = 0;
  virtual const ConnectionCounters& counters() const = 0;
};

// Where a backend finds the memory of both ends.
struct ConnectionMemory {
  RegionTable* local = nullptr;           // bounds and ownership of everything that comes in
  const RemoteRegions* remote = nullptr;  // where the peer's regions lie, and their epochs
  EndpointId peer{};                      // whose regions of `local` it may use

  // As RegionTable::find; null, too, in a region that is another peer's.
  std::byte* place(const EpochFragment& piece) const {
    const Fragment& f = piece.fragment;
    return local->open_to(f.region, peer) ? local->find(f.region, piece.epoch, f.offset, f.length)
                                          : nullptr;
  }
};

struct ConnectionOptions {
  std::uint32_t queues = 1;  // queue pairs a lane
  bool checksum = false;     // CRC-32C over each operation's bytes, looked at before it is told
};

// A connection to be: both sides make one, exchange offers over their session, and connect. No step
// blocks; the session calls connect() when it has the peer's offer, and `ready` is called from the
// loop, with an empty reason or with what went wrong.
class PendingConnection {
 public:
  virtual ~PendingConnection() = default;
  virtual std::vector<std::byte> offer() = 0;
  // `from_peer` came from the network. Takes the place of this object when it is ready.
  virtual void connect(std::span<const std::byte> from_peer) = 0;
  // Why it failed; empty while it has not.
  virtual const std::string& error() const = 0;
  // Null until it is ready; then once.
  virtual std::unique_ptr<Connection> take() = 0;
};

// One a process and kind of wire: devices, listening sockets.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // "tcp", "shm", "rdma"
  // `passive`: the side that listens. `ready(context, 0)` from the loop when take() gives the
  // connection or error() the reason why there is none.
  virtual std::unique_ptr<PendingConnection> prepare(ConnectionOwner& owner,
                                                     const ConnectionMemory& memory,
                                                     const ConnectionOptions& options, bool passive,
                                                     Callback ready) = 0;
};

}  // namespace kvlane::live
