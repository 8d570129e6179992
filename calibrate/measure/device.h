#pragma once
// What is measured: the CPU, or a GPU where CUDA was built.

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "calibrate/measure/machine.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// A device that this machine, or this build, does not have.
class NoDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Call = std::function<void()>;

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual Machine machine() const = 0;
  virtual bool is_cpu() const = 0;
  // Who multiplies matrices and in what: "fp32" where no library takes 16 bits.
  virtual const char* gemm_dtype() const = 0;
  // What runs a kernel, for Sample::variant.
  virtual std::string library(const std::string& kernel) const = 0;
  // A call over operands of the shape; empty where they do not fit the memory, and where the device
  // lacks the kernel. One at a time: a call is over before the next is prepared.
  virtual Call prepare(const Sample& shape) = 0;
  // Seconds of one run.
  virtual double run(const Call& call) = 0;
  // Seconds that this program has waited for its processors so far, as far as they are its own
  // matter: a GPU's work does not wait for them.
  virtual double waited() { return 0; }
  // Makes the last-level cache forget the operands.
  virtual void flush() = 0;
};

// Opens GPU `number`, or throws NoDevice: gpu/gpu_device.h. Empty in a build without CUDA.
using OpenGpu =
    std::function<std::unique_ptr<Device>(int number, int threads, std::int64_t operands)>;

// "cpu" or "cuda:N". Throws NoDevice, std::invalid_argument for other words. `threads`: of the CPU;
// 0: all that this process may use. `operands`: bytes for values and for results each; 0: a part of
// the memory.
std::unique_ptr<Device> open_device(const std::string& word, int threads, std::int64_t operands = 0,
                                    const OpenGpu& open_gpu = {});

}  // namespace kvlane::calibrate
