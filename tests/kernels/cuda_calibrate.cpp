// `kvlane calibrate --device cuda:N` on the host executor: every kernel of the grid gives a sample,
// and its result is the reference's for the same operands, which proves the arguments. Times mean
// nothing here.

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measure/gpu/gpu_backend.h"
#include "calibrate/measure/gpu/gpu_device.h"
#include "calibrate/measure/gpu/gpu_machine.h"
#include "calibrate/measure/gpu/gpu_memory.h"
#include "calibrate/measure/grid.h"
#include "calibrate/measure/kernel_calls.h"
#include "calibrate/measure/session.h"
#include "kernels/common/cuda_read.h"
#include "tests/support/reference_backend.h"

using namespace kvlane;
using namespace kvlane::calibrate;
namespace cuda = kvlane::kernels::cuda;

namespace {

constexpr std::int64_t kOperands = 4 << 20;

ModelSpec tiny_model() {
  ModelSpec model;
  model.hidden = 128;
  LayerSpec layer;
  layer.query_heads = 4;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 64;
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 128 * 256;
  model.layers.assign(1, layer);
  return model;
}

// The smallest shape of every kernel and way, 256 tokens at most: the executor is slow.
std::vector<Sample> smallest_shapes() {
  std::vector<Sample> all = kernel_grid({tiny_model()}, "bf16", GridSize::quick);
  for (const bool links : {false, true}) {
    for (Sample& shape :
         links ? link_grid(false, GridSize::quick) : memory_grid(false, GridSize::quick))
      all.push_back(std::move(shape));
  }
  std::vector<Sample> smallest;
  std::set<std::string> known;
  for (const Sample& shape : all) {
    if (known.insert(shape.kernel + ": " + shape.variant).second) smallest.push_back(shape);
  }
  return smallest;
}

// What a device has: values and room for results in device memory and in pinned memory.
struct Memories {
  cuda::DeviceBuffer values{kOperands}, results{kOperands};
  PinnedBuffer pinned_values{kOperands}, pinned_results{kOperands};
  Operands device = operands(values, results);
  Operands pinned = operands(pinned_values, pinned_results);

  template <class Buffer>
  static Operands operands(const Buffer& from, const Buffer& to) {
    return {{from.data(), from.bytes()}, {to.data(), to.bytes()}, std::memcpy};
  }
};

template <class Buffer>
const std::byte* bytes_of(const Buffer& buffer) {
  return static_cast<const std::byte*>(buffer.data());
}

// Only the first `bytes` of a room for results were written.
template <class Buffer>
bool untouched_after(const Buffer& buffer, std::size_t bytes) {
  for (std::size_t at = bytes; at < buffer.bytes(); ++at) {
    if (bytes_of(buffer)[at] != std::byte{0xff}) return false;
  }
  return true;
}

Sample copy_of(const char* variant, std::int64_t bytes) {
  Sample sample;
  sample.kernel = "copy";
  sample.variant = variant;
  sample.shape = {bytes};
  return sample;
}

}  // namespace

TEST_CASE("GPU: every kernel of the grid, and the reference over the same operands") {
  int compared = 0;
  for (const Sample& shape : smallest_shapes()) {
    CAPTURE(shape.kernel);
    Memories gpu, host;
    GpuBackend backend(gpu.device, nullptr, 80);
    testing::ReferenceBackend reference(host.device);
    const Call call = kernel_call(shape, backend);
    const Call expected = kernel_call(shape, reference);
    REQUIRE(bool(call) == bool(expected));
    if (!call) continue;  // a way between memories, below
    call();
    expected();
    REQUIRE_FALSE(reference.results.empty());
    for (const testing::Result& result : reference.results) {
      // The same place in the other room.
      const auto at = static_cast<const std::byte*>(result.values) - bytes_of(host.results);
      const double error = testing::difference(result, bytes_of(gpu.results) + at);
      CHECK(error < testing::tolerance(result));
    }
    ++compared;
  }
  CHECK(compared == 19);
}

TEST_CASE("GPU: copies go the way that they are named for") {
  constexpr std::int64_t kBytes = 4096 + 1024;
  for (const char* variant : {kMemoryCopy, kToDevice, kToHost, kBothWays, kToDevicePageable}) {
    const std::string way = variant;
    CAPTURE(way);
    Memories memories;
    std::memset(memories.values.data(), 17, kOperands);
    std::memset(memories.pinned_values.data(), 34, kOperands);
    GpuMemory memory(memories.device, memories.pinned, nullptr, {});
    const Call call = memory.call(copy_of(variant, kBytes));
    REQUIRE(call);
    call();
    const bool to_device = way != kToHost, to_host = way == kToHost || way == kBothWays;
    const auto* on_device = way == kMemoryCopy ? &memories.values : nullptr;
    const std::byte* source =
        on_device != nullptr ? bytes_of(memories.values) : bytes_of(memories.pinned_values);
    if (to_device) CHECK(std::memcmp(memories.results.data(), source, kBytes) == 0);
    if (to_host) {
      CHECK(std::memcmp(memories.pinned_results.data(), memories.values.data(), kBytes) == 0);
    }
    CHECK(untouched_after(memories.results, to_device ? kBytes : 0));
    CHECK(untouched_after(memories.pinned_results, to_host ? kBytes : 0));
  }
  Memories memories;
  GpuMemory memory(memories.device, memories.pinned, nullptr, {});
  // To pageable memory: nowhere else.
  memory.call(copy_of(kToHostPageable, kBytes))();
  CHECK(untouched_after(memories.results, 0));
  CHECK(untouched_after(memories.pinned_results, 0));
  CHECK_FALSE(memory.call(copy_of("by pigeon", kBytes)));
  CHECK_THROWS_AS(memory.call(copy_of(kMemoryCopy, kOperands + 256)), NoRoom);
}

TEST_CASE("GPU: the streaming read reads every word") {
  Memories memories;
  GpuMemory memory(memories.device, memories.pinned, nullptr, {});
  for (const std::int64_t bytes : {16, 4096, 16384 * 4 * 4, 16384 * 17 + 48}) {
    CAPTURE(bytes);
    memories.device.reset();
    Sample read;
    read.kernel = "read";
    read.shape = {bytes};
    const Call call = memory.call(read);
    call();
    call();  // the sum begins anew
    std::uint32_t expected = 0, sum = 0;
    for (std::int64_t at = 0; at < bytes; at += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes_of(memories.values) + at, sizeof word);
      expected += word;
    }
    std::memcpy(&sum, memories.results.data(), sizeof sum);
    CHECK(sum == expected);
  }
  CHECK_THROWS_AS(
      cuda::sum_words(memories.values.data(), 12, memories.results.as<std::uint32_t>(), nullptr),
      std::invalid_argument);
}

TEST_CASE("GPU: rows are collected and put back alike in every way") {
  for (const std::string kernel : {"kv_gather", "kv_scatter"}) {
    const bool scatter = kernel == "kv_scatter";
    for (const std::string way : {kGatherZeroCopy, kGatherPacked, kGatherCopies}) {
      if (scatter && way == kGatherPacked) continue;
      CAPTURE(kernel);
      CAPTURE(way);
      Sample shape;
      shape.kernel = kernel;
      shape.variant = way;
      shape.shape = {2, 200, 40, 8, 2, 64};
      Memories memories;
      {
        GpuMemory memory(memories.device, memories.pinned, nullptr, kernels::ref::kv_gather);
        const Call call = memory.call(shape);
        REQUIRE(call);
        call();
      }
      // The same operands once more, in the same places: the draws begin anew.
      Operands device = Memories::operands(memories.values, memories.results);
      Operands pinned = Memories::operands(memories.pinned_values, memories.pinned_results);
      kernels::KvGather args =
          gather_arguments(shape, pinned, device, way == kGatherZeroCopy ? device : pinned);
      const std::size_t packed_bytes = 2 * 2 * 40 * args.kv.row_bytes();
      const std::size_t cache_bytes = 2 * 13 * args.kv.block_bytes();
      const auto moved = scatter
                             ? std::make_pair(args.kv.rows, cache_bytes)
                             : std::make_pair(static_cast<const void*>(args.packed), packed_bytes);
      std::vector<std::byte> expected(moved.second, std::byte{0xff});
      if (scatter) {
        args.kv.rows = expected.data();
        kernels::ref::kv_scatter(args);
      } else {
        args.packed = expected.data();
        kernels::ref::kv_gather(args);
      }
      CHECK(std::memcmp(moved.first, expected.data(), moved.second) == 0);
    }
  }
  Memories memories;
  GpuMemory without(memories.device, memories.pinned, nullptr, {});
  Sample shape;
  shape.kernel = "kv_gather";
  shape.variant = kGatherPacked;
  shape.shape = {1, 32, 8, 1, 2, 64};
  CHECK_FALSE(without.call(shape));  // nobody packs
  shape.variant = "";
  CHECK_FALSE(without.call(shape));
}

TEST_CASE("GPU: a session over the whole device leaves a sample a kernel and way") {
  const auto device = open_gpu_device(0, 6, kOperands, kernels::ref::kv_gather);
  CHECK_FALSE(device->is_cpu());
  CHECK(device->gemm_dtype() == std::string("bf16"));
  SessionOptions options;
  options.timer.fewest = options.timer.most = 1;
  options.cold = false;
  options.commit = "abc";
  options.stopped = [] { return false; };
  options.now = [] { return 0.0; };
  options.timer.too_long = 1e9;
  const std::vector<Sample> shapes = smallest_shapes();
  const SessionResult result = measure_shapes(*device, shapes, options);
  CHECK(result.too_large == 0);
  REQUIRE(result.samples.size() == shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Sample& sample = result.samples[i];
    CAPTURE(sample.kernel);
    CAPTURE(sample.variant);
    CHECK(sample.kernel == shapes[i].kernel);
    CHECK(sample.seconds > 0);
    CHECK(sample.machine == "host-executor");
    CHECK(sample.conditions.multiprocessors == 4);
    CHECK(sample.conditions.threads == 6);
    CHECK(sample.conditions.memory_bytes == 1 << 30);
    CHECK(sample.conditions.cache_bytes == 1 << 20);
    CHECK(sample.conditions.driver == "CUDA 12.2");
    CHECK(sample.set_aside == shapes[i].set_aside);
    const std::string library = sample.kernel == "gemm"   ? "cuBLAS none"
                                : sample.kernel == "copy" ? "CUDA 12.2"
                                                          : "kvlane";
    CHECK(sample.variant ==
          (shapes[i].variant.empty() ? library : shapes[i].variant + ": " + library));
  }
  // Cold, by hand: what flushes runs.
  const Call call = device->prepare(shapes.front());
  device->flush();
  CHECK(device->run(call) > 0);
}

TEST_CASE("GPU: what does not fit, what is not there, what is too little") {
  const auto device = open_gpu_device(0, 1, kOperands, {});
  Sample large;
  large.kernel = "gemm";
  large.dtype = "bf16";
  large.shape = {4096, 4096, 4096};
  CHECK_FALSE(device->prepare(large));
  large.shape = {8, 64, 64};
  CHECK(device->prepare(large));
  CHECK_THROWS_WITH_AS(open_gpu_device(7, 1, kOperands, {}),
                       "device cuda:7: this machine has 1 GPU; expected cuda:0", NoDevice);
  CHECK_THROWS_WITH_AS(open_gpu_device(0, 1, std::int64_t{1} << 40, {}), "CUDA: out of memory",
                       std::runtime_error);
  // An older GPU has no tensor cores for bf16: these kernels have no call there.
  Memories memories;
  GpuBackend old(memories.device, nullptr, 75);
  for (const Sample& shape : smallest_shapes()) {
    if (shape.kernel == "prefill_attention" || shape.kernel == "hack_append" ||
        shape.kernel == "hack_attention")
      CHECK_FALSE(kernel_call(shape, old));
    if (shape.kernel == "decode_attention") CHECK(kernel_call(shape, old));
  }
  // Nor has any GPU one of a head that its kernels are not written for.
  GpuBackend backend(memories.device, nullptr, 90);
  Sample decode;
  decode.kernel = "decode_attention";
  decode.shape = {1, 64, 4, 2, 96};
  CHECK_FALSE(kernel_call(decode, backend));
}

TEST_CASE("GPU: what nvidia-smi says") {
  const SmiAnswer all = smi_answer("550.54.14, 2520 MHz, 9001 MHz, 72.00 W");
  CHECK(all.driver == "NVIDIA 550.54.14");
  CHECK(all.clock_state == "SM at most 2520 MHz, memory at most 9001 MHz, 72.00 W at most");
  const SmiAnswer some = smi_answer("570.1, 1410 MHz, [N/A], [Not Supported]");
  CHECK(some.driver == "NVIDIA 570.1");
  CHECK(some.clock_state == "SM at most 1410 MHz");
  for (const char* none :
       {"", "No devices were found", "NVIDIA-SMI has failed because it could not talk"}) {
    CHECK(smi_answer(none).driver.empty());
    CHECK(smi_answer(none).clock_state.empty());
  }
  CHECK(cuda_version(12040) == "12.4");
  CHECK(cuda_version(13000) == "13.0");
}
