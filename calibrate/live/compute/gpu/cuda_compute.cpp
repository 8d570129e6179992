#include "calibrate/live/compute/gpu/cuda_compute.h"

#include <fmt/format.h>

#include <utility>

#include "calibrate/live/compute/cpu_mover.h"
#include "calibrate/live/compute/gpu/cuda_kernels.h"
#include "calibrate/live/compute/gpu/cuda_mover.h"
#include "calibrate/measure/device.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::live {

CudaCompute::CudaCompute(WallLoop& loop, std::vector<const CostModel*> models,
                         const std::vector<GpuId>& own, const CudaComputeOptions& options,
                         TraceSink* trace)
    : KernelCompute(loop, std::move(models), trace) {
  const int there = kernels::cuda::devices();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const int device = i < options.devices.size() ? options.devices[i] : static_cast<int>(i);
    if (device < 0 || device >= there) {
      throw calibrate::NoDevice(
          fmt::format("compute cuda: device {} for GPU {} of the scenario; this machine has {}",
                      device, own[i].value(), there));
    }
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    const int device = i < options.devices.size() ? options.devices[i] : static_cast<int>(i);
    const CostModel& cost = model(own[i]);
    for (const Place place : {Place::compute, Place::side}) {
      add_worker(
          own[i], {place}, options.processors, [&cost, device, bytes = options.operand_bytes] {
            return std::make_unique<KernelCrew>(cost, std::make_unique<CudaKernels>(device, bytes));
          });
    }
    const auto copied = static_cast<std::size_t>(options.copied_bytes);
    for (const Place place : {Place::to_device, Place::to_host}) {
      add_worker(own[i], {place}, options.processors,
                 [device, copied] { return std::make_unique<CudaMover>(device, copied); });
    }
    add_worker(own[i], {Place::gather}, options.processors,
               [&cost, copied] { return std::make_unique<CpuMover>(cost, copied); });
  }
}

CudaCompute::~CudaCompute() { stop(); }

}  // namespace kvlane::live
