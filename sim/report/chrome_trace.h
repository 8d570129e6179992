#pragma once
// The trace of a run as Chrome/Perfetto JSON: a process group a strategy; tracks for requests,
// decode iterations, GPU streams, PCIe directions and NIC ports (each endpoint, tx and rx); arrows
// from the prefill layer over the wire to the decode iteration that needs it. Written as records
// come, so that memory depends on what runs at the same time, not on the length of the run.
//
// Things that overlap on one resource (transfers share a port) get a row each: slices of one row
// never overlap. Times are microseconds with picoseconds behind the point. A viewer colours slices
// by their name without its digits, so a NIC slice starts with its lane and keeps one unit a lane;
// `cname` says the same to chrome://tracing.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/port/trace.h"

namespace kvlane {

struct TraceNames {
  std::vector<std::string> gpus;       // by GpuId; a missing name reads "GPU 3"
  std::vector<std::string> endpoints;  // by EndpointId; a missing name reads "endpoint 3"
};

class ChromeTrace {
 public:
  // Gets the text piece by piece, in order.
  using Writer = std::function<void(std::string_view)>;

  explicit ChromeTrace(Writer writer);
  ~ChromeTrace();
  ChromeTrace(const ChromeTrace&) = delete;
  ChromeTrace& operator=(const ChromeTrace&) = delete;

  // A process group named after the strategy; the sink lives as long as this. Records of a strategy
  // may come in any order of time, but a request's milestones in theirs.
  TraceSink& add_strategy(const std::string& name, TraceNames names);
  // Closes the JSON text; nothing may be recorded afterwards.
  void finish();

 private:
  class StrategySink;
  struct Output;
  std::unique_ptr<Output> output_;
  std::vector<std::unique_ptr<StrategySink>> sinks_;
};

}  // namespace kvlane
