#pragma once
// Turns the trace of one strategy run into times of requests and sums: the only place where metrics
// come from. Passes every record on to a further sink, if there is one, and hashes it.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/metrics/request_times.h"
#include "sim/port/trace.h"

namespace kvlane {

class MetricsCollector final : public TraceSink {
 public:
  explicit MetricsCollector(std::size_t requests, TraceSink* next = nullptr);

  void record(const TraceRecord& record) override;

  // After the run. `line_rate(source, destination)` is the path's rate alone, `latency` likewise.
  // A request that never got its second token is a broken invariant.
  std::vector<RequestTimes> request_times(
      const std::function<Bandwidth(EndpointId, EndpointId)>& line_rate,
      const std::function<Duration(EndpointId, EndpointId)>& latency) const;

  const std::array<Bytes, kLaneCount>& lane_bytes() const {
    return lane_bytes_;  // KV; mask updates count as control
  }
  Bytes metadata_bytes() const { return metadata_; }
  // From the first byte of KV that leaves to the last that arrives; zero when none moves.
  Duration transfer_time() const;
  // Remote / all selected prompt rows, one a decode step, pooled over requests.
  std::vector<double> on_demand_ratio() const;
  // The decode step (from 1) after which all blocks of all requests are local; none: never in the
  // run.
  std::optional<std::int64_t> local_after() const;
  std::int64_t switched_to_full() const { return switched_; }  // requests, by auto-switch
  bool finished() const;  // every request has at least two tokens
  TimePoint last_activity() const { return last_activity_; }  // of any record
  TimePoint end() const { return end_; }                      // last token
  std::uint64_t hash() const { return hash_; }

 private:
  struct Moved {
    TimePoint begin, end;
    Bytes bytes{0};
    EndpointId source, destination;
  };
  struct Request {
    RequestTimes times;
    std::vector<Moved> moved;  // KV and metadata sent to it before it started
    std::optional<std::int64_t> local_after;
  };

  TraceSink* next_;
  std::vector<Request> requests_;
  std::array<Bytes, kLaneCount> lane_bytes_{};
  Bytes metadata_{0};
  TimePoint first_kv_ = kNever;
  TimePoint last_kv_{};
  TimePoint end_{};
  TimePoint last_activity_{};
  std::int64_t switched_ = 0;
  std::vector<std::int64_t> selected_, remote_;  // by step
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace kvlane
