#pragma once
// The transport port over connections to other processes: what is the same on every wire.
//
// Numbers operations (a completion that comes twice, or late, finds nothing), gives each a place
// until it has completed, encodes and decodes messages, refuses those that name what is not there,
// verifies bytes, writes the trace, and watches that peers make progress: operations in flight and
// nothing moved for `timeout` is the peer's end. A peer that is lost fails what was posted to it
// and is told to `on_failure`, once; so is each operation that the peer refused.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/transport/connection.h"
#include "calibrate/live/wire/message.h"
#include "sim/port/trace.h"

namespace kvlane::live {

// What the run of the moment knows of the bytes that cross: asked before anything is told.
class Inspector {
 public:
  virtual ~Inspector() = default;
  // Empty when everything that the message names exists at this side; else what does not.
  virtual std::string problem(EndpointId from, const Message& message) = 0;
  // The message's bytes lie in our memory.
  virtual void arrived(EndpointId from, const Message& message) = 0;
  // A read of ours has ended.
  virtual void fetched(std::span<const Fragment> fragments) = 0;
};

struct LiveCounters {
  std::uint64_t posted = 0, completed = 0, failed = 0;
  std::uint64_t stale = 0;  // completions of what had completed before
};

class LiveTransport final : public Transport {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(10);
  };
  // `request`: whose transfer could not be made, where the peer is still there.
  using Failure =
      std::function<void(EndpointId peer, const std::string& reason, RequestId request)>;

  // `loop` and `regions` outlive it.
  LiveTransport(WallLoop& loop, EndpointId self, RegionTable& regions, Options options);
  ~LiveTransport() override;

  // --- before a run
  // The owner to give to the peer's PendingConnection, then the connection itself.
  ConnectionOwner& owner_of(EndpointId peer);
  RemoteRegions& remote_of(EndpointId peer);
  void connect(EndpointId peer, std::unique_ptr<Connection> connection);
  void on_failure(Failure failure) { failure_ = std::move(failure); }
  // Added to times of the peer's loop they are times of ours. 0 until it is told.
  void set_clock(EndpointId peer, Duration shift);
  // Of the connection to the peer (Connection::set_line).
  void set_line(EndpointId peer, Bandwidth payload);
  // Of one run: who looks, and where records go, with times from `zero` on. Null after it.
  void begin_run(TraceSink* trace, Inspector* inspector, TimePoint zero = {});
  // Forgets what is in flight; its completions are stale from now on.
  void end_run();

  // --- the port
  TransferId post(const TransferSpec& spec, Callback completion) override;
  bool cancel(TransferId transfer) override;
  void set_handler(EndpointId endpoint, MessageHandler* handler) override;
  TransportLimits limits(EndpointId endpoint) const override;

  std::size_t in_flight() const { return in_flight_; }
  const LiveCounters& counters() const { return counters_; }
  const Connection* connection(EndpointId peer) const;
  // Closes every connection: afterwards nobody writes into our memory.
  void close();

 private:
  struct Peer;
  struct Posted {
    Operation operation;
    Callback completion;
    Peer* peer = nullptr;
    bool live = false;
    TraceRecord record;
  };

  void completed(Peer& peer, std::uint64_t id, TransferStatus status, TimePoint begin,
                 TimePoint applied);
  void arrived(Peer& peer, std::span<const std::byte> bytes);
  void lost(Peer& peer, const std::string& reason);
  void watch_progress();
  Posted* find(std::uint64_t id);
  void finish(Posted& posted, TransferStatus status);

  WallLoop& loop_;
  EndpointId self_;
  RegionTable& regions_;
  Options options_;
  Failure failure_;
  TraceSink* trace_ = nullptr;
  Inspector* inspector_ = nullptr;
  MessageHandler* handler_ = nullptr;
  TimePoint zero_{};
  std::map<EndpointId, std::unique_ptr<Peer>> peers_;
  std::deque<Posted> posted_;  // addresses stay
  std::vector<std::uint32_t> free_;
  std::uint64_t sequence_ = 0;
  std::size_t in_flight_ = 0;
  LiveCounters counters_;
  OwnedMessage scratch_;
  TimerId progress_timer_;
};

}  // namespace kvlane::live
