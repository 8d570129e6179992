#include "sim/report/trace_words.h"

#include <fmt/format.h>

#include <array>

#include "sim/port/compute.h"

namespace kvlane {
namespace {

// Order of WorkKind.
constexpr std::array<const char*, 12> kWork{"prefill",     "prefill head", "selection metadata",
                                            "quantise",    "dequantise",   "QKV",
                                            "selection",   "attention",    "FFN",
                                            "decode head", "host step",    "gather on host"};
constexpr std::array<const char*, 4> kOps{"WRITE", "WRITE", "SEND", "READ"};
constexpr std::array<const char*, kLaneCount> kLanes{"control", "on-demand", "proactive",
                                                     "speculative"};
// Grey, red, blue, orange: apart for colour-blind eyes too.
constexpr std::array<const char*, kLaneCount> kColours{"grey", "terrible", "rail_response",
                                                       "thread_state_iowait"};

void append_subject(std::string& name, const TraceRecord& record) {
  if (record.layer.is_valid()) name += fmt::format(", layer {}", record.layer.value());
  if (record.request.is_valid()) name += fmt::format(", request {}", record.request.value());
}

}  // namespace

std::string track_label(TrackKind kind, std::uint32_t id, const std::string& name) {
  const bool nic = kind == TrackKind::nic_tx || kind == TrackKind::nic_rx;
  std::string who = !name.empty() ? name : fmt::format("{} {}", nic ? "endpoint" : "GPU", id);
  switch (kind) {
    case TrackKind::request:
      return fmt::format("request {}", id);
    case TrackKind::iteration:
      return fmt::format("{} iterations", who);
    case TrackKind::gpu_compute:
      return fmt::format("{} compute", who);
    case TrackKind::gpu_side:
      return fmt::format("{} side stream", who);
    case TrackKind::host_gather:
      return fmt::format("{} host gather", who);
    case TrackKind::pcie_h2d:
      return fmt::format("{} PCIe host to GPU", who);
    case TrackKind::pcie_d2h:
      return fmt::format("{} PCIe GPU to host", who);
    case TrackKind::nic_tx:
      return fmt::format("{} NIC tx", who);
    case TrackKind::nic_rx:
      return fmt::format("{} NIC rx", who);
  }
  return who;
}

std::int64_t sort_index(TrackKind kind, std::uint32_t id, std::size_t row) {
  const std::int64_t number = id;
  const auto within = static_cast<std::int64_t>(row);
  switch (kind) {
    case TrackKind::request:
      return number;
    case TrackKind::iteration:
      return 10'000'000 + number;
    case TrackKind::nic_tx:
    case TrackKind::nic_rx:
      return 100'000'000 + number * 2000 + (kind == TrackKind::nic_rx ? 1000 : 0) + within;
    default: {
      const auto stream =
          static_cast<std::int64_t>(kind) - static_cast<std::int64_t>(TrackKind::gpu_compute);
      return 20'000'000 + number * 1000 + stream * 200 + within;
    }
  }
}

TrackKind compute_track(const TraceRecord& record) {
  const auto kind = static_cast<WorkKind>(record.detail);
  if (kind == WorkKind::gather_host) return TrackKind::host_gather;
  return record.value == static_cast<std::int64_t>(Stream::side) ? TrackKind::gpu_side
                                                                 : TrackKind::gpu_compute;
}

std::string compute_name(const TraceRecord& record) {
  std::string name = record.detail < kWork.size() ? kWork[record.detail] : "work";
  append_subject(name, record);
  return name;
}

std::string copy_name(const TraceRecord& record) {
  const bool load = record.detail == static_cast<std::uint8_t>(CopyDirection::host_to_device);
  std::string name = fmt::format("{} {:.3f} MB", load ? "load" : "offload",
                                 static_cast<double>(record.bytes.count()) * 1e-6);
  append_subject(name, record);
  return name;
}

std::string transfer_name(const TraceRecord& record) {
  const bool small = record.lane == Lane::control;
  const char* what = record.metadata ? "metadata" : kLanes[index(record.lane)];
  std::string name = fmt::format(
      "{} {} {:.3f} {}", what, record.detail < kOps.size() ? kOps[record.detail] : "transfer",
      static_cast<double>(record.bytes.count()) * (small ? 1e-3 : 1e-6), small ? "kB" : "MB");
  append_subject(name, record);
  return name;
}

std::string_view lane_category(const TraceRecord& record) {
  return record.metadata ? "metadata" : kLanes[index(record.lane)];
}

std::string_view lane_colour(const TraceRecord& record) {
  return record.metadata ? "olive" : kColours[index(record.lane)];
}

}  // namespace kvlane
