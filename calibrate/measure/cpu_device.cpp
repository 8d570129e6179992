// The CPU as a device; and which device a word names.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>

#include "calibrate/measure/cpu_backend.h"
#include "calibrate/measure/cpu_cache.h"
#include "calibrate/measure/cpu_memory.h"
#include "calibrate/measure/device.h"
#include "calibrate/measure/host_memory.h"
#include "calibrate/measure/kernel_calls.h"

// Not in every cblas.h; OpenBLAS's own. "OpenBLAS 0.3.21 NO_LAPACKE ...".
extern "C" char* openblas_get_config();

namespace kvlane::calibrate {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// For operands and for results each; larger matrices are left to the formula.
constexpr std::int64_t kMostOperands = 1536 * kMiB;
// Where the machine does not tell its cache.
constexpr std::int64_t kLeastFlush = 64 * kMiB;

std::string openblas_version() {
  const std::string config = openblas_get_config();
  const std::size_t name = config.find(' ');
  return config.substr(0, config.find(' ', name == std::string::npos ? name : name + 1));
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, std::int64_t operands)
      : machine_(read_machine(threads)),
        cpu_(threads, operands == 0),  // a trial may share its processors
        values_(operand_bytes(machine_, operands)),
        results_(operand_bytes(machine_, operands)),
        operands_(values_.arena(), results_.arena(), std::memcpy),
        backend_(operands_, cpu_),
        flushed_(static_cast<std::size_t>(std::max(machine_.cache_bytes, kLeastFlush))),
        flush_(read_call(flushed_.data(), flushed_.bytes(), cpu_)) {}

  Machine machine() const override { return machine_; }
  bool is_cpu() const override { return true; }
  const char* gemm_dtype() const override { return "fp32"; }

  std::string library(const std::string& kernel) const override {
    const std::string threads = fmt::format("{} threads", machine_.threads);
    return (kernel == "gemm" ? openblas_version() : std::string("kvlane")) + ", " + threads;
  }

  Call prepare(const Sample& shape) override {
    operands_.reset();
    ours_ = shape.kernel != "gemm";
    try {
      Call call = cpu_memory_call(shape, operands_, cpu_);
      return call ? call : kernel_call(shape, backend_);
    } catch (const NoRoom&) {
      return {};
    }
  }

  // The threads are awake, as they are between two kernels of a step. Matrix products have threads
  // of their own, which ours would be in the way of.
  double run(const Call& call) override {
    if (ours_) cpu_.parallel_for(static_cast<std::size_t>(cpu_.threads()), [](std::size_t, int) {});
    const auto begin = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  double waited() override { return seconds_in_line(); }

  // The operands' lines one by one where the processor can and where that is less; else streams
  // over as much as the last-level cache holds, on every thread, so that the caches of each core
  // are emptied with it.
  void flush() override {
    const Arena* const arenas[] = {&operands_.values(), &operands_.results()};
    const std::size_t used = arenas[0]->used() + arenas[1]->used();
    if (!by_lines_ || used >= flushed_.bytes()) return flush_();
    for (const Arena* arena : arenas) forget_lines(arena->memory(), arena->used(), cpu_);
  }

 private:
  static std::size_t operand_bytes(const Machine& machine, std::int64_t wanted) {
    const std::int64_t part = std::clamp(machine.memory_bytes / 6, 64 * kMiB, kMostOperands);
    return static_cast<std::size_t>(wanted > 0 ? wanted : part);
  }

  Machine machine_;
  bool ours_ = true;  // the call at hand runs on cpu_
  const bool by_lines_ = can_forget_lines();
  kernels::Cpu cpu_;
  HostMemory values_, results_;
  Operands operands_;
  CpuBackend backend_;
  HostMemory flushed_;
  Call flush_;
};

}  // namespace

std::unique_ptr<Device> open_device(const std::string& word, int threads, std::int64_t operands,
                                    const OpenGpu& open_gpu) {
  if (word == "cpu") {
    return std::make_unique<CpuDevice>(threads > 0 ? threads : kernels::usable_processors(),
                                       operands);
  }
  const std::string prefix = "cuda:";
  int number = 0;
  const char* const end = word.data() + word.size();
  const bool prefixed = word.rfind(prefix, 0) == 0 && word.size() > prefix.size();
  const auto read = std::from_chars(word.data() + (prefixed ? prefix.size() : 0), end, number);
  const bool cuda = prefixed && read.ec == std::errc() && read.ptr == end && number >= 0;
  if (!cuda) {
    throw std::invalid_argument(fmt::format("device '{}'; expected cpu or cuda:N", word));
  }
  if (!open_gpu) {
    throw NoDevice(fmt::format(
        "device {}: this program was built without CUDA; expected cpu, or a build with the CUDA "
        "toolkit 12.2 or newer (cmake -DKVLANE_CUDA=ON says what it misses)",
        word));
  }
  return open_gpu(number, threads, operands);
}

}  // namespace kvlane::calibrate
