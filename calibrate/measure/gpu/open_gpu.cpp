#include "calibrate/measure/gpu/open_gpu.h"

#include "calibrate/measure/gpu/gpu_device.h"
#include "kernels/common/cpu.h"

namespace kvlane::calibrate {

std::unique_ptr<Device> open_gpu(int number, int threads, std::int64_t operands) {
  const auto cpu =
      std::make_shared<kernels::Cpu>(threads > 0 ? threads : kernels::usable_processors());
  return open_gpu_device(number, cpu->threads(), operands, [cpu](const kernels::KvGather& args) {
    kernels::cpu::kv_gather(args, *cpu);
  });
}

}  // namespace kvlane::calibrate
