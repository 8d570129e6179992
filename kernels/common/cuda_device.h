#pragma once
// The few calls of the CUDA runtime that programs here need, without CUDA headers. Errors throw
// std::runtime_error with place and text. cuda_device.cu is the real one; the tests' executor
// has its own, where a device pointer is a host pointer.

#include <cstddef>
#include <string>

#include "kernels/common/cuda_stream.h"

namespace kvlane::kernels::cuda {

struct DeviceInfo {
  std::string name;
  int capability = 0;  // 10 * major + minor, 90 for an H100
  int multiprocessors = 0;
  int max_threads_a_multiprocessor = 0;
  std::size_t memory_bytes = 0, l2_bytes = 0;
  std::size_t shared_bytes_a_block = 0;  // with opt-in
  std::size_t shared_bytes_a_multiprocessor = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;  // at most; 0: nobody says
  std::string pci_bus_id;                                        // "0000:3b:00.0"
  int driver_version = 0, runtime_version = 0;                   // 1000 * major + 10 * minor
};

int devices();  // 0 without a GPU or a driver; never throws
DeviceInfo device_info(int device);
void use_device(int device);  // of the calling thread
int multiprocessors();        // of the device in use
std::size_t free_device_memory();

void* device_allocate(std::size_t bytes);  // 256-byte aligned
void device_free(void* memory);
// Pinned, readable and writable by the device at the same address.
void* pinned_allocate(std::size_t bytes);
void pinned_free(void* memory);

// Between any two of host, pinned and device memory. Asynchronous only where the host side is
// pinned.
void copy(void* to, const void* from, std::size_t bytes, Stream stream = nullptr);
void fill(void* memory, unsigned char value, std::size_t bytes, Stream stream = nullptr);

Stream create_stream();
void destroy_stream(Stream stream);
void synchronize(Stream stream = nullptr);
void synchronize_device();

// A moment in a stream; a cudaEvent_t.
struct EventHandle;
using Event = EventHandle*;
Event create_event();
void destroy_event(Event event);
void record(Event event, Stream stream = nullptr);
// What is queued in the stream from now on waits for the recorded event.
void wait(Stream stream, Event event);
// Of the device, between two recorded events; waits for the second.
double elapsed_seconds(Event begin, Event end);

// Device memory with an owner.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : memory_(device_allocate(bytes)), bytes_(bytes) {}
  ~DeviceBuffer() { device_free(memory_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer(DeviceBuffer&& other) noexcept : memory_(other.memory_), bytes_(other.bytes_) {
    other.memory_ = nullptr;
    other.bytes_ = 0;
  }
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  void* data() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  Workspace workspace() const { return {memory_, bytes_}; }

 private:
  void* memory_;
  std::size_t bytes_;
};

}  // namespace kvlane::kernels::cuda
