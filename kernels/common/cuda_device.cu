#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_device.h"

namespace kvlane::kernels::cuda {
namespace {

cudaStream_t native(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t native(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  // Newer drivers no longer answer some (clocks): 0 then.
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return value;
}

}  // namespace

int devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // without a driver it is an error and the count is not set
    return 0;
  }
  return count;
}

DeviceInfo device_info(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  DeviceInfo info;
  info.name = properties.name;
  info.capability = 10 * properties.major + properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.max_threads_a_multiprocessor = properties.maxThreadsPerMultiProcessor;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.shared_bytes_a_block = properties.sharedMemPerBlockOptin;
  info.shared_bytes_a_multiprocessor = properties.sharedMemPerMultiprocessor;
  info.clock_khz = attribute(cudaDevAttrClockRate, device);
  info.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, device);
  info.memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof address, device));
  info.pci_bus_id = address;
  check(cudaDriverGetVersion(&info.driver_version));
  check(cudaRuntimeGetVersion(&info.runtime_version));
  return info;
}

void use_device(int device) { check(cudaSetDevice(device)); }

int multiprocessors() {
  int device = 0;
  check(cudaGetDevice(&device));
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

std::size_t free_device_memory() {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all));
  return free;
}

void* device_allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes == 0 ? 1 : bytes));
  return memory;
}

void device_free(void* memory) { (void)cudaFree(memory); }

void* pinned_allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(
      cudaHostAlloc(&memory, bytes == 0 ? 1 : bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  return memory;
}

void pinned_free(void* memory) { (void)cudaFreeHost(memory); }

void copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

void fill(void* memory, unsigned char value, std::size_t bytes, Stream stream) {
  if (bytes > 0) check(cudaMemsetAsync(memory, value, bytes, native(stream)));
}

Stream create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return reinterpret_cast<Stream>(stream);
}

void destroy_stream(Stream stream) { (void)cudaStreamDestroy(native(stream)); }
void synchronize(Stream stream) { check(cudaStreamSynchronize(native(stream))); }
void synchronize_device() { check(cudaDeviceSynchronize()); }

Event create_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  return reinterpret_cast<Event>(event);
}

void destroy_event(Event event) { (void)cudaEventDestroy(native(event)); }

void record(Event event, Stream stream) { check(cudaEventRecord(native(event), native(stream))); }

void wait(Stream stream, Event event) {
  check(cudaStreamWaitEvent(native(stream), native(event), 0));
}

double elapsed_seconds(Event begin, Event end) {
  check(cudaEventSynchronize(native(end)));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, native(begin), native(end)));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace kvlane::kernels::cuda
