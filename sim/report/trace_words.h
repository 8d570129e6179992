#pragma once
// Names, colours and order of what a trace shows: words that a person understands.

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/port/trace.h"

namespace kvlane {

enum class TrackKind : std::uint8_t {
  request,
  iteration,
  gpu_compute,
  gpu_side,
  host_gather,
  pcie_h2d,
  pcie_d2h,
  nic_tx,
  nic_rx,
};

// `name` is the GPU's or endpoint's; empty: it is called by its number.
std::string track_label(TrackKind kind, std::uint32_t id, const std::string& name);
// Requests, then iterations, then each GPU with its streams and PCIe, then each NIC port.
std::int64_t sort_index(TrackKind kind, std::uint32_t id, std::size_t row);

TrackKind compute_track(const TraceRecord& record);
std::string compute_name(const TraceRecord& record);
std::string copy_name(const TraceRecord& record);
// Starts with the lane, and each lane has one unit, so that a viewer that colours by the name
// without its digits gives a lane one colour.
std::string transfer_name(const TraceRecord& record);
std::string_view lane_category(const TraceRecord& record);
std::string_view lane_colour(const TraceRecord& record);  // a name of chrome://tracing's palette

}  // namespace kvlane
