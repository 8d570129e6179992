#pragma once
// Two ends of a link that is to be measured: the passive one lends its memory, answers, and pushes
// in the background when it is told to; the active one posts and takes the time. The wire, the
// transport and the session are those of a live run.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/role/prefill_role.h"
#include "calibrate/live/role/wire_up.h"

namespace kvlane::live {

struct LinkOptions {
  // Bytes of memory that transfers go round in. 0, at the end that answers: as the peer says.
  std::int64_t working_set = std::int64_t{256} << 20U;
  std::uint32_t queues = 1;  // queue pairs a lane; 0 likewise
};

// Serves one session, then returns.
void run_link_passive(const LiveOptions& options, const LinkOptions& link,
                      const SocketAddress& listen, const Say& say);

// What to post: `fragments` pieces of `bytes / fragments` each, scattered over the working set, up
// to `depth` at a time on `queues` queues and `lanes` lanes in turn, for `seconds` but at least
// `least_count` operations; where these take four times as long, three are enough.
struct LinkLoad {
  TransferOp op = TransferOp::write;
  Lane lane = Lane::proactive;
  std::int64_t bytes = 65536;
  std::int64_t fragments = 1;
  int depth = 1;
  std::uint32_t queues = 1;
  int lanes = 1;  // above 1: on_demand, proactive and speculative in turn
  double seconds = 0.5;
  double warm_up_seconds = 0.1;
  double rest_seconds = 0;  // from a completion to the next post: both ends fall asleep
  std::int64_t least_count = 20;
};

struct LatencyUs {
  double min = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0, mean = 0, stdev = 0;
};

// How `LinkSample::visible` came about.
enum class VisibleFrom : std::uint8_t {
  own_clock,        // the bytes land here, or both ends have one clock
  aligned_clocks,   // the error of the alignment is below a tenth of the median
  half_round_trip,  // it is not, or the wire does not tell: half of `latency`
};
const char* to_string(VisibleFrom from);

struct LinkSample {
  LinkLoad load;
  std::int64_t operations = 0;  // counted: after the warm-up
  std::int64_t errors = 0;
  double seconds = 0;    // from the last completion before them to their last
  double rate_GBps = 0;  // 1e9 bytes a second, payload
  double operations_per_s = 0;
  LatencyUs latency;  // post to completion
  LatencyUs visible;  // post to the peer's having it in place
  VisibleFrom visible_from = VisibleFrom::own_clock;
  double cpu_s_per_GB = 0;  // both ends, user and system
  double post_us = 0;       // mean time in post()
};

class LinkProbe {
 public:
  // Connects. `peer` as of `--peer`.
  LinkProbe(const LiveOptions& options, const LinkOptions& link, const SocketAddress& peer,
            const Say& say);
  ~LinkProbe();

  LinkSample measure(const LinkLoad& load);
  // Tells the peer to push 1 MiB pieces on the speculative or the proactive lane from now on, with
  // at most this many bytes in flight; 0: to stop.
  void background(std::int64_t bytes_in_flight, Lane lane = Lane::speculative);
  // What the line carries, at both ends, as a run's roles know it from the scenario.
  void set_line(Bandwidth payload);
  struct CpuCost {
    double sent = 0, received = 0;  // seconds a byte
  };
  // What the load's writes take from a computation beside the transport at either end
  // (neighbour.h): 0 where more processors are allowed than the transport needs.
  CpuCost cpu_cost(const LinkLoad& load);
  // Some writes and reads of the load's shape, looked at byte by byte: how many bytes. RunError
  // where some are wrong.
  std::int64_t verify(const LinkLoad& load);
  void verify() { verify({}); }
  void close();

  std::string transport() const;
  TransportLimits limits() const;
  SocketAddress own_address() const;  // of the session
  bool same_host() const;
  double clock_error_us() const;   // 0: one clock
  double connect_seconds() const;  // without the peer's filling of its memory

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane::live
