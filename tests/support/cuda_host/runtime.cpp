// kernels/common/cuda_device.h for the executor: device memory is heap memory of the exact size,
// streams do everything at once.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/common/cuda_device.h"
#include "tests/support/cuda_host/executor.h"
#include "tests/support/cuda_host/sanitize.h"

namespace kvlane::kernels::cuda {

struct EventHandle {
  std::chrono::steady_clock::time_point at;
};

namespace {

constexpr std::size_t kDeviceMemory = std::size_t{1} << 30;

void expect_first(int device) {
  if (device != 0) throw std::runtime_error("CUDA: invalid device ordinal");
}

}  // namespace

int devices() { return 1; }
// Instructions of compute capability 8.0 and the shared memory of 8.6: what all from 8.0 on have.
DeviceInfo device_info(int device) {
  expect_first(device);
  DeviceInfo info;
  info.name = "host executor";
  info.capability = 80;
  info.memory_bytes = kDeviceMemory;
  info.l2_bytes = std::size_t{1} << 20;
  info.driver_version = info.runtime_version = 12020;
  info.multiprocessors = multiprocessors();
  info.shared_bytes_a_block = cuda_host::settings().shared_limit;
  return info;
}
void use_device(int device) { expect_first(device); }
int multiprocessors() { return cuda_host::settings().multiprocessors; }
std::size_t free_device_memory() { return kDeviceMemory; }

// One allocator for both kinds; 0xff is NaN in every float format and -1 in integers.
void* device_allocate(std::size_t bytes) {
  if (bytes > kDeviceMemory) throw std::runtime_error("CUDA: out of memory");
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  cuda_host::poison_uninitialised(memory, bytes);
  return memory;
}
void device_free(void* memory) { std::free(memory); }
void* pinned_allocate(std::size_t bytes) { return device_allocate(bytes); }
void pinned_free(void* memory) { std::free(memory); }

void copy(void* to, const void* from, std::size_t bytes, Stream) {
  if (bytes == 0) return;
  // A result that leaves the device must have been computed.
  cuda_host::check_initialised(from, bytes);
  std::memcpy(to, from, bytes);
}
void fill(void* memory, unsigned char value, std::size_t bytes, Stream) {
  if (bytes > 0) std::memset(memory, value, bytes);
}

Stream create_stream() { return nullptr; }
void destroy_stream(Stream) {}
void synchronize(Stream) {}
void synchronize_device() {}

Event create_event() { return new EventHandle(); }
void destroy_event(Event event) { delete event; }
void record(Event event, Stream) { event->at = std::chrono::steady_clock::now(); }
void wait(Stream, Event) {}
double elapsed_seconds(Event begin, Event end) {
  return std::chrono::duration<double>(end->at - begin->at).count();
}

}  // namespace kvlane::kernels::cuda
