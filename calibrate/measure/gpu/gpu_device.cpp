#include "calibrate/measure/gpu/gpu_device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measure/gpu/gpu_backend.h"
#include "calibrate/measure/gpu/gpu_handles.h"
#include "calibrate/measure/gpu/gpu_machine.h"
#include "calibrate/measure/gpu/gpu_memory.h"
#include "calibrate/measure/kernel_calls.h"

namespace kvlane::calibrate {
namespace {

namespace cuda = kernels::cuda;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kLeastOperands = 64 * kMiB;
// For values and for results each; larger shapes are left to the formula.
constexpr std::int64_t kMostOnDevice = 4096 * kMiB, kMostPinned = 1024 * kMiB;
constexpr std::int64_t kLeastFlush = 64 * kMiB;  // where a cache does not tell its size
constexpr std::size_t kLine = 64;

std::size_t operand_bytes(std::int64_t wanted, std::int64_t part, std::int64_t most) {
  const std::int64_t bytes = wanted > 0 ? wanted : std::clamp(part, kLeastOperands, most);
  return static_cast<std::size_t>(bytes);
}

template <class Buffer>
Arena arena(const Buffer& buffer) {
  return {buffer.data(), buffer.bytes()};
}

class GpuDevice final : public Device {
 public:
  GpuDevice(int number, int threads, std::int64_t operands, HostGather gather)
      : info_((cuda::use_device(number), cuda::device_info(number))),
        machine_(gpu_machine(info_, threads)),
        host_(read_machine(threads)),
        stream_(cuda::create_stream()),
        begin_(cuda::create_event()),
        end_(cuda::create_event()),
        flushed_(static_cast<std::size_t>(std::max(2 * machine_.cache_bytes, kLeastFlush))),
        host_flushed_(static_cast<std::size_t>(std::max(host_.cache_bytes, kLeastFlush))),
        device_values_(device_bytes(operands)),
        device_results_(device_values_.bytes()),
        pinned_values_(operand_bytes(operands, host_.memory_bytes / 12, kMostPinned)),
        pinned_results_(pinned_values_.bytes()),
        device_(arena(device_values_), arena(device_results_),
                [stream = stream_.get()](void* to, const void* from, std::size_t bytes) {
                  cuda::copy(to, from, bytes, stream);
                  cuda::synchronize(stream);  // a list may be gone when this returns
                }),
        pinned_(arena(pinned_values_), arena(pinned_results_), std::memcpy),
        backend_(device_, stream_.get(), info_.capability),
        memory_(device_, pinned_, stream_.get(), std::move(gather)) {}

  Machine machine() const override { return machine_; }
  bool is_cpu() const override { return false; }
  const char* gemm_dtype() const override { return "bf16"; }

  std::string library(const std::string& kernel) const override {
    if (kernel == "gemm") return backend_.gemm_library();
    if (kernel == "copy") return "CUDA " + cuda_version(info_.runtime_version);
    return "kvlane";
  }

  Call prepare(const Sample& shape) override {
    cuda::synchronize(stream_.get());  // what is queued may use the operands
    device_.reset();
    pinned_.reset();
    host_works_ = GpuMemory::host_works(shape);
    rows_on_host_ = shape.kernel == "kv_gather" || shape.kernel == "kv_scatter";
    try {
      Call call = memory_.call(shape);
      return call ? call : kernel_call(shape, backend_);
    } catch (const NoRoom&) {
      return {};
    }
  }

  // Between two events. Where the flush is still on its way, the call is queued behind it, and its
  // time is the device's alone, as in a server that queues ahead.
  double run(const Call& call) override {
    if (host_works_) cuda::synchronize(stream_.get());
    cuda::record(begin_.get(), stream_.get());
    call();
    cuda::record(end_.get(), stream_.get());
    return cuda::elapsed_seconds(begin_.get(), end_.get());
  }

  double waited() override { return host_works_ ? seconds_in_line() : 0; }

  void flush() override {
    if (rows_on_host_) flush_host();
    cuda::fill(flushed_.data(), 0, flushed_.bytes(), stream_.get());
  }

 private:
  // A quarter of what is free for values and as much for results.
  static std::size_t device_bytes(std::int64_t wanted) {
    const auto free = static_cast<std::int64_t>(cuda::free_device_memory());
    return operand_bytes(wanted, free / 4, kMostOnDevice);
  }

  // A cache of rows in host memory is far larger than the host's caches: reads take their lines.
  void flush_host() {
    unsigned sum = 0;
    for (std::size_t at = 0; at < host_flushed_.size(); at += kLine) sum += host_flushed_[at];
    host_sum_ = sum;
  }

  cuda::DeviceInfo info_;
  Machine machine_, host_;
  OwnedStream stream_;
  OwnedEvent begin_, end_;
  cuda::DeviceBuffer flushed_;
  std::vector<unsigned char> host_flushed_;
  cuda::DeviceBuffer device_values_, device_results_;
  PinnedBuffer pinned_values_, pinned_results_;
  Operands device_, pinned_;
  GpuBackend backend_;
  GpuMemory memory_;
  bool host_works_ = false, rows_on_host_ = false;
  volatile unsigned host_sum_ = 0;  // or the compiler leaves the reads out
};

}  // namespace

std::unique_ptr<Device> open_gpu_device(int number, int threads, std::int64_t operands,
                                        HostGather gather) {
  const std::string word = "device cuda:" + std::to_string(number) + ": ";
  const int count = cuda::devices();
  if (count == 0) {
    throw NoDevice(word + "no GPU, or no driver for it (see nvidia-smi); expected cpu");
  }
  if (number < 0 || number >= count) {
    throw NoDevice(word + "this machine has " + std::to_string(count) +
                   (count == 1 ? " GPU; expected cuda:0"
                               : " GPUs; expected cuda:0 to cuda:" + std::to_string(count - 1)));
  }
  const cuda::DeviceInfo info = cuda::device_info(number);
  if (info.capability < 75) {
    throw NoDevice(word + info.name + " has compute capability " +
                   std::to_string(info.capability / 10) + '.' +
                   std::to_string(info.capability % 10) + "; expected 7.5 or newer");
  }
  return std::make_unique<GpuDevice>(number, threads, operands, std::move(gather));
}

}  // namespace kvlane::calibrate
