#pragma once
// A connection over TCP streams. Private to the files of TcpBackend and to the tests that tear
// streams apart.

#include <sys/uio.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/live/tcp/stream.h"
#include "calibrate/live/transport/connection.h"

namespace kvlane::live::tcp {

class TcpConnection final : public Connection, public Pollable, public StreamOwner {
 public:
  // `sockets`: by lane x queues + queue; taken over.
  TcpConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                const ConnectionOptions& options, const std::vector<int>& sockets);
  ~TcpConnection() override;

  void post(const Operation& operation) override;
  bool cancel(std::uint64_t id) override;
  void close() override;
  TransportLimits limits() const override;
  const ConnectionCounters& counters() const override { return counters_; }

  void on_ready(int fd, std::uint32_t events) override;
  void started(std::uint64_t id) override;
  std::string on_body(std::size_t stream, const FrameHead& head, std::span<const std::byte> body,
                      std::vector<EpochFragment>& pieces) override;
  std::string on_frame(std::size_t stream, const FrameHead& head, std::span<const std::byte> body,
                       bool dropped) override;

 private:
  struct Posted {
    const Operation* operation = nullptr;
    TimePoint begin{};
    std::size_t stream = 0;
  };
  struct Entry {
    std::unique_ptr<Stream> stream;
    std::vector<Ack> acks;
    bool wants_write = false;
  };

  std::vector<EpochFragment> remote_pieces(const Operation& operation) const;
  std::vector<EpochFragment> local_pieces(const std::vector<Fragment>& fragments) const;
  std::string accept_data(std::size_t stream, const FrameHead& head,
                          std::span<const std::byte> body, bool dropped);
  std::string accept_read(std::size_t stream, const FrameHead& head,
                          std::span<const std::byte> body);
  std::uint32_t payload_checksum(const std::vector<EpochFragment>& pieces) const;
  void schedule_pump();
  void pump();
  void lose(const std::string& reason);
  void watch_writable(Entry& entry, bool wanted);

  WallLoop& loop_;
  ConnectionOwner& owner_;
  ConnectionMemory memory_;
  ConnectionOptions options_;
  std::vector<Entry> streams_;
  std::unordered_map<int, std::size_t> by_fd_;
  std::unordered_map<std::uint64_t, Posted> posted_;
  ConnectionCounters counters_;
  TimerId pump_timer_;
  bool closed_ = false, lost_ = false;
};

}  // namespace kvlane::live::tcp
