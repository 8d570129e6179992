#pragma once
// The sizes of copies and reads to measure: no models in them, and the standard library only.

#include <cstdint>
#include <vector>

#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

enum class GridSize : std::uint8_t { full, quick };  // quick: few and small, to see that all works

// Memory of the device: a copy and a streaming read over sizes. Ways beside that of all threads are
// set aside from fits.
std::vector<Sample> memory_grid(bool cpu, GridSize size);
// Between host and device, one way, both at once, pinned or not; on a CPU copies in memory.
std::vector<Sample> link_grid(bool cpu, GridSize size);

// Variants of `copy`.
inline constexpr const char* kMemoryCopy = "memory copy";
inline constexpr const char* kMemoryCopyOneThread = "memory copy, one thread";
inline constexpr const char* kMemoryCopyBothWays = "memory copy, both ways at once";
inline constexpr const char* kToDevice = "host to device, pinned";
inline constexpr const char* kToHost = "device to host, pinned";
inline constexpr const char* kBothWays = "both ways at once, pinned";
inline constexpr const char* kToDevicePageable = "host to device, pageable";
inline constexpr const char* kToHostPageable = "device to host, pageable";
// Whether a copy crosses the link between host and device, once; kernel_work counts every copy as
// read and written.
bool crosses_link(const Sample& sample);
// Of `kv_gather` and `kv_scatter` between host and device: a kernel that reads (writes) the rows
// over the bus, the host that packs them for one copy, a copy a run of rows. A CPU has one way.
inline constexpr const char* kGatherZeroCopy = "zero copy";
inline constexpr const char* kGatherPacked = "packed on the host, one copy";
inline constexpr const char* kGatherCopies = "a batch of copies";

}  // namespace kvlane::calibrate
