#pragma once
// Trace records of one process, on their way to the process that reports.

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sim/port/trace.h"

namespace kvlane::live {

class RecordList final : public TraceSink {
 public:
  void record(const TraceRecord& record) override { records.push_back(record); }
  std::vector<TraceRecord> records;
};

// Passes records on with their times moved: `by` is added.
class ShiftedSink final : public TraceSink {
 public:
  ShiftedSink(TraceSink& next, Duration by) : next_(next), by_(by) {}
  void record(const TraceRecord& record) override {
    TraceRecord moved = record;
    moved.begin += by_;
    moved.end += by_;
    next_.record(moved);
  }

 private:
  TraceSink& next_;
  Duration by_;
};

// What a record may name; beyond it the peer is wrong.
struct RecordBounds {
  std::size_t requests = 0, layers = 0, gpus = 0, endpoints = 0;
  std::int32_t iterations = 0;
  TimePoint earliest = TimePoint::min(), latest = TimePoint::max();
  Bytes most_bytes{std::numeric_limits<std::int64_t>::max()};  // of one record
};

std::vector<std::byte> encode_records(std::span<const TraceRecord> records);
// Why these bytes are no records; empty when they were appended.
std::string decode_records(std::span<const std::byte> bytes, const RecordBounds& bounds,
                           std::vector<TraceRecord>& records);

// In the order in which one observer would have written them.
void sort_records(std::vector<TraceRecord>& records);

}  // namespace kvlane::live
