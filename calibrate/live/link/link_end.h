#pragma once
// What the two ends of a measured link have in common; for the files of this folder alone.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "calibrate/live/link/link_role.h"
#include "calibrate/live/memory/pool.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/transport/live_transport.h"

namespace kvlane::live {

inline constexpr Duration kLinkSpin = std::chrono::microseconds(20);
inline constexpr RegionId kLinkRegion{0};
inline constexpr EndpointId kActiveEnd{0}, kPassiveEnd{1};
inline constexpr std::int64_t kBackgroundPush = 1 << 20;  // bytes of a background write

// Body of a `start` frame: the command and a number (bytes in flight, on the speculative or the
// proactive lane; none; bits a second; 1 or 0). The answer, `run_done`: the peer's CPU seconds,
// what its neighbour has done, its loop's zero by its clock, its host.
enum class LinkCommand : std::uint8_t {
  background,
  push,
  usage,
  line,
  neighbour,
  last = neighbour
};

// Names of the options in the config of the handshake.
inline constexpr const char* kWorkingSetKey = "--working-set (bytes)";
inline constexpr const char* kQueuesKey = "--queues (most)";

double process_cpu_seconds();
std::uint64_t pattern_seed(EndpointId end);

// Offsets of pieces, in an order that does not follow memory, round and round.
class Scatter {
 public:
  Scatter(std::int64_t working_set, std::int64_t piece)
      : piece_(std::max<std::int64_t>(1, piece)),
        slots_(std::max<std::int64_t>(1, working_set / piece_)),
        step_(std::max<std::int64_t>(1, slots_ * 618 / 1000)) {
    while (std::gcd(step_, slots_) != 1) --step_;
  }
  std::int64_t next() {
    at_ = (at_ + step_) % slots_;
    return at_ * piece_;
  }

 private:
  std::int64_t piece_, slots_, step_, at_ = 0;
};

// Nothing that a message could say is believed here: a link carries bytes alone.
struct NoMessages final : Inspector, MessageHandler {
  std::string problem(EndpointId, const Message&) override { return "sent on a link of bytes"; }
  void arrived(EndpointId, const Message&) override {}
  void fetched(std::span<const Fragment>) override {}
  void on_message(EndpointId, const Message&) override {}
};

struct LinkEnd {
  // `breathe`: called while its memory is filled, which takes a while.
  LinkEnd(WallLoop& loop, EndpointId self, const LiveOptions& options, const LinkOptions& link,
          const std::function<void()>& breathe = nullptr);
  ~LinkEnd() { transport.close(); }
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  // Exchanges regions. PeerError where the peer's is none.
  void exchange_places(Session& session, EndpointId peer, Duration limit);
  void fail(const std::string& reason) {
    if (failure.empty()) failure = reason;
    loop.stop();
  }
  void check() const {
    if (!failure.empty()) throw PeerError(failure);
  }

  WallLoop& loop;
  LinkOptions link;
  Pool pool;
  RegionTable regions;
  LiveTransport transport;
  NoMessages no_messages;
  RegionPlace place;
  std::string name;  // of the peer, in errors
  std::string failure;
};

}  // namespace kvlane::live
