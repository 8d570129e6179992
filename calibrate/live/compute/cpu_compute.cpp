#include "calibrate/live/compute/cpu_compute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "calibrate/live/compute/cpu_mover.h"
#include "calibrate/live/compute/kernel_crew.h"
#include "calibrate/measure/cpu_backend.h"
#include "calibrate/measure/machine.h"

namespace kvlane::live {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

class CpuKernels final : public KernelSet {
 public:
  CpuKernels(calibrate::Operands& operands, int threads)
      : cpu_(threads), backend_(operands, cpu_) {}
  calibrate::Backend& backend() override { return backend_; }
  const char* gemm_dtype() const override { return "fp32"; }
  std::size_t calls_ahead() const override { return 1; }
  void finish() override {}
  void fetch(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

 private:
  kernels::Cpu cpu_;
  calibrate::CpuBackend backend_;
};

std::size_t value_bytes(const CpuComputeOptions& options) {
  if (options.value_bytes > 0) return static_cast<std::size_t>(options.value_bytes);
  const std::int64_t part = calibrate::read_machine(1).memory_bytes / 8;
  return static_cast<std::size_t>(std::clamp(part, 64 * kMiB, 1536 * kMiB));
}

}  // namespace

CpuCompute::CpuCompute(WallLoop& loop, std::vector<const CostModel*> models,
                       const std::vector<GpuId>& own, const CpuComputeOptions& options,
                       TraceSink* trace)
    : KernelCompute(loop, std::move(models), trace), values_(value_bytes(options)) {
  const std::size_t results = options.result_bytes > 0
                                  ? static_cast<std::size_t>(options.result_bytes)
                                  : values_.bytes() / 2;
  for (const GpuId gpu : own) {
    calibrate::HostMemory room(results);
    const calibrate::Arena arena = room.arena();
    memory_.push_back(std::make_unique<Memory>(
        Memory{std::move(room), calibrate::Operands(values_.arena(), arena, std::memcpy)}));
    calibrate::Operands& operands = memory_.back()->operands;
    const CostModel& cost = model(gpu);
    add_worker(gpu, {Place::compute, Place::side}, options.processors,
               [&cost, &operands, threads = options.threads] {
                 return std::make_unique<KernelCrew>(
                     cost, std::make_unique<CpuKernels>(operands, threads));
               });
    add_worker(gpu, {Place::to_device, Place::to_host, Place::gather}, options.processors,
               [&cost, bytes = static_cast<std::size_t>(options.copied_bytes)] {
                 return std::make_unique<CpuMover>(cost, bytes);
               });
  }
}

CpuCompute::~CpuCompute() { stop(); }

}  // namespace kvlane::live
