#pragma once
// One record type and one sink for both worlds. Metrics are computed from these records, never from
// inside the model.

#include <cstdint>

#include "sim/base/strong_id.h"
#include "sim/base/units.h"
#include "sim/port/transport.h"

namespace kvlane {

enum class TraceKind : std::uint8_t {
  // Milestones of a request: begin == end.
  arrived,
  prefill_started,    // first layer begins
  layer_handed_over,  // `layer` has been given to the policy
  prefill_finished,   // last layer computed
  token,              // `iteration` counts tokens from 1
  mandatory_arrived,  // `value`: nanobytes none; decode may start
  switched_to_full,   // auto-switch: this request is sent as a whole
  joined,             // sequence is part of decode iteration `iteration`
  released,
  // One decode iteration of the batch.
  iteration,     // value = batch size
  selection,     // value = selected prompt rows, bytes.count() = remote ones of them
  local_blocks,  // value = blocks local, bytes.count() = blocks in all
  // Occupation of a resource.
  compute,   // detail = WorkKind, on a GPU track
  copy,      // detail = CopyDirection, on a PCIe track
  transfer,  // detail = TransferOp, lane and bytes set, on an endpoint track
};

struct TraceRecord {
  TraceKind kind = TraceKind::arrived;
  Lane lane = Lane::control;
  std::uint8_t detail = 0;
  bool metadata = false;  // transfer: selection metadata, not KV
  std::int32_t iteration = -1;
  TimePoint begin;
  TimePoint end;
  RequestId request;
  LayerId layer;
  GpuId gpu;          // compute, copy
  EndpointId source;  // transfer: where the bytes leave
  EndpointId destination;
  Bytes bytes{0};
  Bytes mask{0};  // transfer: bytes of the mask update behind it
  std::int64_t value = 0;
  std::uint64_t flow = 0;  // joins a transfer to what produced and what consumed it
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void record(const TraceRecord& record) = 0;
};

}  // namespace kvlane
