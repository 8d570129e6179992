#pragma once
// GPU memory that the NIC reads and writes itself. Where neither way works the caller bounces
// through host memory.
//
// Only its errors are tested: Soft-RoCE registers no dma-buf (EOPNOTSUPP), and there is no
// peer-memory module without a GPU.

#include <cstdint>
#include <string>

#include "calibrate/live/rdma/device.h"

namespace kvlane::live {

struct GpuMemory {
  std::uint64_t address = 0;  // of the device, as cudaMalloc gave it
  std::size_t bytes = 0;
  int dma_buf = -1;                  // of cuMemGetHandleForAddressRange; -1: none
  std::uint64_t dma_buf_offset = 0;  // of `address` in it
};

struct GpuRegistration {
  MemoryRegion region;  // null: neither way
  std::string how;      // "dma-buf", "nvidia_peermem"; else why not
};

GpuRegistration register_gpu(Device& device, const GpuMemory& memory);

}  // namespace kvlane::live
