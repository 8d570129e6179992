// The CPU as a device; and which device a word names.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

#include "calibrate/measure/cpu_operands.h"
#include "calibrate/measure/device.h"

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
        cpu_(threads),
        operands_{cpu_, Arena(operand_bytes(machine_, operands), 1),
                  Arena(operand_bytes(machine_, operands), 0)},
        flush_{cpu_,
               Arena(static_cast<std::size_t>(std::max(machine_.cache_bytes, kLeastFlush)), 0),
               Arena(0, 0)} {}

  Machine machine() const override { return machine_; }
  bool is_cpu() const override { return true; }
  const char* gemm_dtype() const override { return "fp32"; }

  std::string library(const std::string& kernel) const override {
    const std::string threads = fmt::format("{} threads", machine_.threads);
    return (kernel == "gemm" ? openblas_version() : std::string("kvlane")) + ", " + threads;
  }

  Call prepare(const Sample& shape) override {
    for (const auto family : {attention_call, selection_call, memory_call, hack_call, layer_call}) {
      operands_.input.reset();
      operands_.output.reset();
      if (Call call = family(shape, operands_)) return call;
    }
    return {};
  }

  double run(const Call& call) override {
    const auto begin = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  double waited() override { return seconds_in_line(); }

  // Streams over as much as the last-level cache holds, on every thread, so that the caches of
  // each core are emptied with it. Reads alone would do; a sum keeps the compiler from leaving them
  // out.
  void flush() override {
    Sample all;
    all.kernel = "read";
    all.shape = {static_cast<std::int64_t>(flush_.input.size())};
    flush_.input.reset();
    memory_call(all, flush_)();
  }

 private:
  static std::size_t operand_bytes(const Machine& machine, std::int64_t wanted) {
    const std::int64_t part = std::clamp(machine.memory_bytes / 6, 64 * kMiB, kMostOperands);
    return static_cast<std::size_t>(wanted > 0 ? wanted : part);
  }

  Machine machine_;
  kernels::Cpu cpu_;
  CpuOperands operands_;
  CpuOperands flush_;
};

}  // namespace

std::unique_ptr<Device> open_device(const std::string& word, int threads, std::int64_t operands) {
  if (word == "cpu") {
    return std::make_unique<CpuDevice>(threads > 0 ? threads : kernels::usable_processors(),
                                       operands);
  }
  const std::string prefix = "cuda:";
  int number = 0;
  const char* const end = word.data() + word.size();
  const bool cuda = word.rfind(prefix, 0) == 0 &&
                    std::from_chars(word.data() + prefix.size(), end, number).ptr == end &&
                    word.size() > prefix.size() && number >= 0;
  if (!cuda) {
    throw std::invalid_argument(fmt::format("device '{}'; expected cpu or cuda:N", word));
  }
  throw NoDevice(fmt::format("device {}: this build measures CPUs only; expected cpu", word));
}

}  // namespace kvlane::calibrate
