#pragma once
// The transport port over real bytes: one UNIX-domain socket pair for every (poster, peer, lane,
// queue) and kind (reads apart), so that the order of a queue is the order of its stream. Data of a
// write lands in the peer's registered memory before its message is handed over; the peer's side
// acknowledges, and the acknowledgement is the poster's completion. No priority between lanes.
//
// Every byte is checked where it arrives: memory is filled with pattern(region, offset), payload
// without a place in memory with the pattern of its transfer.

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/port/trace.h"
#include "sim/port/transport.h"
#include "tests/support/wall_loop.h"

namespace kvlane::test {

inline unsigned char pattern(std::uint64_t source, std::int64_t offset) {
  std::uint64_t x = (source + 1) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(offset);
  x ^= x >> 29U;
  x *= 0xbf58476d1ce4e5b9ULL;
  return static_cast<unsigned char>(x >> 56U);
}

class SocketTransport final : public Transport, public LoopSource {
 public:
  SocketTransport(WallLoop& loop, std::size_t endpoints, TraceSink& trace);
  ~SocketTransport() override;

  // Memory of `bytes` at every endpoint: full of its pattern at `owner`, empty elsewhere.
  void register_region(EndpointId owner, RegionId region, Bytes bytes);

  TransferId post(const TransferSpec& spec, Callback completion) override;
  bool cancel(TransferId) override { return false; }  // posted is sent
  void set_handler(EndpointId endpoint, MessageHandler* handler) override;
  TransportLimits limits(EndpointId) const override { return {30, 30, 30, Bytes(0), true, false}; }

  bool in_flight() const override { return in_flight_ > 0; }
  void watch(std::vector<pollfd>& fds) const override;
  void service() override;

  std::uint64_t posted() const { return posted_; }
  std::uint64_t completed() const { return completed_; }
  Bytes sent() const { return sent_; }          // payload written to sockets
  Bytes received() const { return received_; }  // payload read from sockets and checked
  std::uint64_t wrong_bytes() const { return wrong_; }
  // Bytes of the region that have arrived at `endpoint`, each counted once.
  Bytes arrived(EndpointId endpoint, RegionId region) const;

 private:
  struct Queue;
  using Key = std::tuple<EndpointId, EndpointId, Lane, std::uint32_t, bool>;

  Queue& queue(const TransferSpec& spec);
  void finish_received(Queue& queue);
  std::vector<unsigned char>& memory(EndpointId endpoint, RegionId region);

  WallLoop& loop_;
  TraceSink& trace_;
  std::vector<MessageHandler*> handlers_;
  std::map<Key, std::unique_ptr<Queue>> queues_;
  std::map<std::pair<EndpointId, RegionId>, std::vector<unsigned char>> memory_;
  std::map<std::pair<EndpointId, RegionId>, std::vector<bool>> landed_;
  std::uint64_t posted_ = 0, completed_ = 0, in_flight_ = 0, wrong_ = 0;
  Bytes sent_{0}, received_{0};
};

}  // namespace kvlane::test
