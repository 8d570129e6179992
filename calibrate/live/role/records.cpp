#include "calibrate/live/role/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/wire/bytes.h"
#include "sim/port/compute.h"

namespace kvlane::live {
namespace {}  // namespace

std::vector<std::byte> encode_records(std::span<const TraceRecord> records) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  out.put(static_cast<std::uint32_t>(records.size()));
  for (const TraceRecord& r : records) {
    out.put(r.kind);
    out.put(r.lane);
    out.put(r.detail);
    out.put(static_cast<std::uint8_t>(r.metadata ? 1 : 0));
    out.put(r.iteration);
    out.put(r.begin.time_since_epoch().count());
    out.put(r.end.time_since_epoch().count());
    out.put(r.request.value());
    out.put(r.layer.value());
    out.put(r.gpu.value());
    out.put(r.source.value());
    out.put(r.destination.value());
    out.put(r.bytes.count());
    out.put(r.mask.count());
    out.put(r.value);
    out.put(r.flow);
  }
  return bytes;
}

std::string decode_records(std::span<const std::byte> bytes, const RecordBounds& bounds,
                           std::vector<TraceRecord>& records) {
  Reader in(bytes);
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    TraceRecord r;
    r.kind = in.get_enum(TraceKind::transfer);
    r.lane = in.get_enum(Lane::speculative);
    r.detail = in.get<std::uint8_t>();
    r.metadata = in.get<std::uint8_t>() != 0;
    r.iteration = in.get<std::int32_t>();
    r.begin = TimePoint(Duration(in.get<std::int64_t>()));
    r.end = TimePoint(Duration(in.get<std::int64_t>()));
    r.request = RequestId(in.get<std::uint32_t>());
    r.layer = LayerId(in.get<std::uint32_t>());
    r.gpu = GpuId(in.get<std::uint32_t>());
    r.source = EndpointId(in.get<std::uint32_t>());
    r.destination = EndpointId(in.get<std::uint32_t>());
    r.bytes = Bytes(in.get<std::int64_t>());
    r.mask = Bytes(in.get<std::int64_t>());
    r.value = in.get<std::int64_t>();
    r.flow = in.get<std::uint64_t>();
    if (!in.ok()) return fmt::format("record {} of {} is none", i, count);
    const auto beyond = [](auto id, std::size_t limit) {
      return id.is_valid() && id.index() >= limit;
    };
    const auto time_ok = [&](TimePoint t) {
      return t.time_since_epoch().count() > -kMostPs && t.time_since_epoch().count() < kMostPs &&
             t >= bounds.earliest && t <= bounds.latest;
    };
    const bool needs_request = r.kind < TraceKind::iteration || r.kind == TraceKind::selection ||
                               r.kind == TraceKind::local_blocks;
    const std::size_t details =
        r.kind == TraceKind::compute ? static_cast<std::size_t>(WorkKind::gather_host) + 1 : 4;
    if (beyond(r.request, bounds.requests) || beyond(r.layer, bounds.layers) ||
        beyond(r.gpu, bounds.gpus) || beyond(r.source, bounds.endpoints) ||
        beyond(r.destination, bounds.endpoints) || (needs_request && !r.request.is_valid()) ||
        r.iteration < -1 || r.iteration > bounds.iterations || r.detail >= details ||
        (r.kind == TraceKind::selection && r.iteration < 0) ||
        (r.kind == TraceKind::transfer && !(r.source.is_valid() && r.destination.is_valid())) ||
        ((r.kind == TraceKind::compute || r.kind == TraceKind::copy) && !r.gpu.is_valid()) ||
        !time_ok(r.begin) || !time_ok(r.end) || r.end < r.begin || r.bytes < Bytes(0) ||
        r.mask < Bytes(0) || r.bytes > bounds.most_bytes || r.mask > bounds.most_bytes) {
      return fmt::format("record {} of {} names what is not there", i, count);
    }
    records.push_back(r);
  }
  return in.done() ? "" : "more bytes than records";
}

void sort_records(std::vector<TraceRecord>& records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const TraceRecord& a, const TraceRecord& b) { return a.end < b.end; });
}

}  // namespace kvlane::live
