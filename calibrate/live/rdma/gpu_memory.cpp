#include "calibrate/live/rdma/gpu_memory.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace kvlane::live {

GpuRegistration register_gpu(Device& device, const GpuMemory& memory) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  std::string tried = "dma-buf: none given";
  if (memory.dma_buf >= 0) {
    MemoryRegion region(ibv_reg_dmabuf_mr(device.domain(), memory.dma_buf_offset, memory.bytes,
                                          memory.address, memory.dma_buf, kAccess));
    if (region) return {std::move(region), "dma-buf"};
    tried = "dma-buf: " + std::generic_category().message(errno);
  }
  // With the module loaded, a device address registers like any other; relaxed ordering as for the
  // pool's data.
  MemoryRegion region(ibv_reg_mr(device.domain(), reinterpret_cast<void*>(memory.address),
                                 memory.bytes,
                                 static_cast<unsigned int>(kAccess | IBV_ACCESS_RELAXED_ORDERING)));
  if (region) return {std::move(region), "nvidia_peermem"};
  return {nullptr, fmt::format("{}; nvidia_peermem: {} (modprobe nvidia_peermem)", tried,
                               std::generic_category().message(errno))};
}

}  // namespace kvlane::live
