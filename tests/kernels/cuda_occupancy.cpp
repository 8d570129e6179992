// What each kernel's header states (blocks a multiprocessor, bytes in flight) against CUDA's own
// occupancy calculator and Little's law. Evidence, not a measurement: CI has no GPU.

#include <cuda_occupancy.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/common/cuda_attend.h"
#include "kernels/common/cuda_read.h"
#include "kernels/hack/cuda.h"
#include "kernels/hata/cuda.h"
#include "kernels/index_split/cuda.h"
#include "kernels/infinigen/cuda.h"
#include "kernels/kv_gather/cuda.h"
#include "kernels/layer/cuda.h"
#include "kernels/prefill_attention/cuda.h"
#include "kernels/topk/cuda.h"

namespace cuda = kvlane::kernels::cuda;

namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; bandwidths from
// NVIDIA's data sheets.
struct Gpu {
  const char* name;
  int capability, threads, multiprocessors;
  std::size_t shared_kib, shared_kib_a_block, shared_kib_default_reserved;
  double bytes_a_second;
};
constexpr Gpu kGpus[] = {{"T4", 75, 1024, 40, 64, 64, 0, 320e9},
                         {"A100 80 GB", 80, 2048, 108, 164, 163, 1, 2039e9},
                         {"A10", 86, 1536, 72, 100, 99, 1, 600e9},
                         {"L20", 89, 1536, 92, 100, 99, 1, 864e9},
                         {"H100", 90, 2048, 132, 228, 227, 1, 3350e9}};
// Of a load that misses L2 while memory is busy: 600 to 700 ns are commonly seen.
constexpr double kLoadedLatencySeconds = 700e-9;

int resident_blocks(const Gpu& gpu, const cuda::Budget& budget) {
  cudaOccDeviceProp device;
  device.computeMajor = gpu.capability / 10;
  device.computeMinor = gpu.capability % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = gpu.threads;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 * 1024;
  device.sharedMemPerMultiprocessor = gpu.shared_kib * 1024;
  device.numSms = gpu.multiprocessors;
  device.sharedMemPerBlockOptin = gpu.shared_kib_a_block * 1024;
  device.reservedSharedMemPerBlock = gpu.shared_kib_default_reserved * 1024;
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = budget.threads;
  // The most that __launch_bounds__ leaves; registers come in eights.
  function.numRegs = std::min(255, 65536 / (budget.threads * budget.blocks) / 8 * 8);
  function.sharedSizeBytes = budget.shared_bytes;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = gpu.shared_kib_a_block * 1024;
  const cudaOccDeviceState state;
  cudaOccResult result{};
  REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state,
                                                  budget.threads, 0) == CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

struct Kernel {
  std::string name;
  cuda::Budget budget;
};

std::vector<Kernel> kernels() {
  std::vector<Kernel> all{{"topk", cuda::topk_budget()},
                          {"index_split", cuda::index_split_budget()},
                          {"hata_encode", cuda::hata_encode_budget()},
                          {"hata_score", cuda::hata_score_budget()},
                          {"infinigen_project", cuda::infinigen_project_budget()},
                          {"infinigen_score", cuda::infinigen_score_budget(8)},
                          {"kv_gather", cuda::kv_gather_budget()},
                          {"sum_words", cuda::sum_words_budget()},
                          {"rms_norm", cuda::rms_norm_budget()},
                          {"rope", cuda::rope_budget()},
                          {"gated_unit, add", cuda::elementwise_budget()},
                          {"embedding", cuda::embedding_budget()}};
  for (int head_dim : {64, 128, 256}) {
    for (int heads : {4, 8}) {
      all.push_back({"attend d " + std::to_string(head_dim) + ", heads " + std::to_string(heads),
                     cuda::attend_budget(head_dim, heads)});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("as many blocks are resident as the kernels state, with enough bytes in flight") {
  for (const Kernel& kernel : kernels()) {
    CAPTURE(kernel.name);
    for (const Gpu& gpu : kGpus) {
      CAPTURE(gpu.name);
      const int blocks = resident_blocks(gpu, kernel.budget);
      CHECK(blocks >= kernel.budget.blocks);
      const double in_flight = static_cast<double>(kernel.budget.blocks) * kernel.budget.threads *
                               kernel.budget.bytes_in_flight;
      CHECK(in_flight >= gpu.bytes_a_second * kLoadedLatencySeconds / gpu.multiprocessors);
    }
  }
}

TEST_CASE("kernels on tensor cores: as many blocks are resident as they state, from 8.0 on") {
  using kvlane::kernels::Format;
  for (const Gpu& gpu : kGpus) {
    if (gpu.capability < 80) continue;
    CAPTURE(gpu.name);
    // Compute binds prefill: what is in flight is not asked.
    for (Format format : {Format::bf16, Format::fp32}) {
      for (int head_dim : {64, 128, 256}) {
        CAPTURE(head_dim);
        const cuda::Budget budget = cuda::prefill_budget(head_dim, format);
        CHECK(resident_blocks(gpu, budget) >= budget.blocks);
        // Two warps for each quarter of a multiprocessor.
        if (format == Format::bf16) CHECK(budget.blocks * budget.threads >= 256);
      }
    }
    for (int bits : {2, 4, 8}) {
      for (int head_dim : {64, 128, 256}) {
        CAPTURE(bits);
        CAPTURE(head_dim);
        kvlane::kernels::HackShape shape;
        shape.bits = bits;
        shape.head_dim = head_dim;
        shape.kv_heads = 1;
        const cuda::Budget budget = cuda::hack_budget(shape);
        REQUIRE(budget.blocks > 0);
        CHECK(resident_blocks(gpu, budget) >= budget.blocks);
        if (head_dim < 128) continue;  // half the bytes a side
        const double in_flight =
            static_cast<double>(budget.blocks) * budget.threads * budget.bytes_in_flight;
        CHECK(in_flight >= gpu.bytes_a_second * kLoadedLatencySeconds / gpu.multiprocessors);
      }
    }
  }
}
