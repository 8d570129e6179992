#pragma once
// RDMA verbs behind the backend's interface: reliable connections (RC) over InfiniBand or RoCE v2.
// Nothing of libibverbs shows here; whoever links kvlane::live_rdma has it, others have no such
// target.
//
// One device and one protection domain a backend; the pool is registered once, when it is opened.
// No process is forked after that, so ibv_fork_init is not called.

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/memory/pool.h"
#include "calibrate/live/transport/connection.h"

namespace kvlane::live {

struct RdmaOptions {
  std::string device;   // empty: the first with an active port whose GIDs hold `address`
  int port = 0;         // 0: the first active one
  int gid_index = -1;   // -1: by type and address
  std::string address;  // of this end; empty: the first usable GID
  // Of the service level and the traffic class of each lane (pitfall 29): 0 shares with everyone.
  std::array<std::uint8_t, kLaneCount> service_level{}, traffic_class{};
  std::uint32_t receives = 512;  // posted RECVs a connection
  // Where a peer puts messages, of at most half of it, and packed pieces.
  std::uint64_t inbox_bytes = 8U << 20U;
  std::uint32_t send_depth = 256;  // work requests of a queue pair
  // A peer without a posted receive is tried again so often. Credits see to it that this never
  // happens: 0 shows where they do not.
  std::uint8_t receiver_retries = 6;
  // Posted WRITEs cannot be recalled: what proactive and speculative lanes together have under way.
  std::int64_t background_bytes = 1 << 20;
  Duration connect_timeout = std::chrono::seconds(10);
  // An idle peer is asked for a sign of life this often; it is lost 0.5 s after one that failed.
  Duration keepalive = std::chrono::milliseconds(500);
  // Tests of the other end's verification: the n-th checksum, from 1, is sent wrong.
  std::uint64_t wrong_checksum = 0;
};

// Bad options, no device, too little locked memory: what was found and what was expected.
class RdmaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws RdmaError. `pool` and `loop` outlive the backend, the backend its connections.
std::unique_ptr<Backend> open_rdma(WallLoop& loop, Pool& pool, const RdmaOptions& options);

// What a program that links kvlane::live_rdma gives to its live runs, which know no verbs.
struct RdmaAccess {
  // Why no device fits to these options; empty where one does.
  std::string (*obstacle)(const RdmaOptions& options) = nullptr;
  std::unique_ptr<Backend> (*open)(WallLoop& loop, Pool& pool,
                                   const RdmaOptions& options) = nullptr;
};
RdmaAccess rdma_access();

// A port of a device, for `kvlane doctor`.
struct RdmaPort {
  std::string device, state, link_layer;
  int port = 0, mtu_bytes = 0;
  std::vector<std::string> gids;  // "1: 10.0.0.1 RoCE v2"
};
std::vector<RdmaPort> list_rdma_ports();

}  // namespace kvlane::live
