#pragma once
// A connection over TCP streams. Private to the files of TcpBackend and to the tests that tear
// streams apart.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/live/tcp/stream.h"
#include "calibrate/live/transport/framed_connection.h"

namespace kvlane::live::tcp {

class TcpConnection final : public FramedConnection, public Pollable, public StreamOwner {
 public:
  // `sockets`: by lane x queues + queue; taken over.
  TcpConnection(WallLoop& loop, ConnectionOwner& owner, const ConnectionMemory& memory,
                const ConnectionOptions& options, const std::vector<int>& sockets);
  ~TcpConnection() override;

  void post(const Operation& operation) override;
  bool cancel(std::uint64_t id) override;
  void close() override;
  void set_line(Bandwidth payload) override;

  void on_ready(int fd, std::uint32_t events) override;
  void started(std::uint64_t id) override { mark_begin(id); }
  std::string on_body(std::size_t, const FrameHead& head, std::span<const std::byte> body,
                      std::vector<EpochFragment>& pieces) override {
    return check_body(head, body, pieces);
  }
  std::string on_frame(std::size_t stream, const FrameHead& head, std::span<const std::byte> body,
                       bool dropped) override {
    return accept(stream, head, body, dropped);
  }

 private:
  struct Entry {
    std::unique_ptr<Stream> stream;
    bool wants_write = false;
  };

  void answer_read(std::size_t stream, const FrameHead& request,
                   std::vector<EpochFragment> pieces) override;
  void schedule_pump();
  void pump_later(Duration wait);
  Duration urgent_in_kernel(Lane lane) const;
  std::int64_t unsent(std::size_t begin, std::size_t end) const;
  Duration line_time(std::int64_t bytes) const;
  void charge_line(std::int64_t bytes);
  void note_fetch();
  void pace(Lane lane, double bytes_per_s);
  void pace_proactive(bool paced);
  void pump();
  void drop(const std::string& reason);
  void watch_writable(Entry& entry, bool wanted);

  std::vector<Entry> streams_;
  std::unordered_map<int, std::size_t> by_fd_;
  TimerId pump_timer_, resume_timer_;
  Bandwidth line_{};
  TimePoint urgent_until_{};  // until then the line is busy with what urgent lanes have written
  TimePoint last_fetch_{};
  bool proactive_paced_ = false;
};

}  // namespace kvlane::live::tcp
