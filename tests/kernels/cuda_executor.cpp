// The executor that runs CUDA kernels on the CPU: collectives against their definitions, and every
// error that it reports by itself.

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>

#include "kernels/common/cuda_format.h"
#include "kernels/common/cuda_kv.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "tests/support/cuda_test.h"

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;
using kvlane::kernels::testing::for_each_order;
using kvlane::kernels::testing::orders;

namespace {

// What the launch throws.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const cuda_host::LaunchError& error) {
    return error.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

__global__ void shuffles(const int* in, int* out, int width) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = in[lane];
  out[lane] = __shfl_sync(cuda::kWholeWarp, value, 3, width);
  out[32 + lane] = __shfl_up_sync(cuda::kWholeWarp, value, 2, width);
  out[64 + lane] = __shfl_down_sync(cuda::kWholeWarp, value, 2, width);
  out[96 + lane] = __shfl_xor_sync(cuda::kWholeWarp, value, 5, width);
}

__global__ void votes(const int* in, unsigned* out) {
  const auto lane = threadIdx.x;
  const int value = in[lane];
  out[lane] = __ballot_sync(cuda::kWholeWarp, value & 1);
  out[32 + lane] = static_cast<unsigned>(__any_sync(cuda::kWholeWarp, value > 90));
  out[64 + lane] = static_cast<unsigned>(__all_sync(cuda::kWholeWarp, value < 99));
  out[96 + lane] = __match_any_sync(cuda::kWholeWarp, value / 10);
  out[128 + lane] = static_cast<unsigned>(__reduce_add_sync(cuda::kWholeWarp, value));
  out[160 + lane] = static_cast<unsigned>(__reduce_min_sync(cuda::kWholeWarp, value - 50));
  out[192 + lane] = __reduce_max_sync(cuda::kWholeWarp, static_cast<unsigned>(value - 50));
  out[224 + lane] = __reduce_xor_sync(cuda::kWholeWarp, static_cast<unsigned>(value));
}

// Two halves of a warp that go apart and use masks of their own.
__global__ void halves(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int sum = lane;
  if (lane < 16) {
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0x0000ffffu, sum, step);
  } else {
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffff0000u, sum, step);
    __syncwarp(0xffff0000u);
  }
  out[lane] = sum;
}

// Each round every thread reads what its neighbour wrote in the last one.
__global__ void rounds(int* out, int n) {
  int* ring = cuda::dynamic_shared<int>();
  const auto t = threadIdx.x, next = (t + 1) % blockDim.x;
  ring[t] = static_cast<int>(t);
  for (int i = 0; i < n; ++i) {
    __syncthreads();
    const int value = ring[next];
    __syncthreads();
    ring[t] = value;
  }
  const int odd = __syncthreads_count(ring[t] & 1);
  const int any = __syncthreads_or(ring[t] == 3), all = __syncthreads_and(ring[t] >= 0);
  out[blockIdx.x * blockDim.x + t] = ring[t] + 1000 * odd + 1000000 * any + 2000000 * all;
}

struct Places {
  uint3 thread, block;
};
__global__ void places(Places* out) {
  const auto threads = blockDim.x * blockDim.y * blockDim.z;
  const auto t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const auto b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[b * threads + t] = Places{threadIdx, blockIdx};
}

__global__ void copy_two_stages(const uint4* from, uint4* to, int groups_left) {
  auto& stage = cuda::shared<uint4[2][32], "stage">();
  const auto lane = threadIdx.x;
  for (unsigned s = 0; s < 2; ++s) {
    cuda::async_copy_16(&stage[s][lane], from + 32 * s + lane, lane != 31);
    cuda::async_copy_commit();
  }
  cuda::async_copy_wait<1>();
  to[lane] = stage[0][lane];
  if (groups_left == 0) cuda::async_copy_wait<0>();
  to[32 + lane] = stage[1][lane];
}

enum class Fault {
  mask_without_caller,
  mask_with_returned,
  mask_beyond_block,
  shuffle_outside_mask,
  bad_width,
  barrier_in_branch,
  early_return,
  half_at_barrier,
  returned_from_collective,
  misaligned_copy,
  too_much_shared
};

__global__ void faulty(Fault fault, uint4* memory) {
  const int t = static_cast<int>(threadIdx.x);
  switch (fault) {
    case Fault::mask_without_caller:
      __syncwarp(0xffffu);
      break;
    case Fault::mask_with_returned:
      if (t == 5) return;
      __syncwarp();
      break;
    case Fault::mask_beyond_block:
      __syncwarp();
      break;
    case Fault::shuffle_outside_mask:
      if (t < 16) __shfl_sync(0xffffu, t, 20);
      break;
    case Fault::bad_width:
      __shfl_sync(0xffffffffu, t, 0, 12);
      break;
    case Fault::barrier_in_branch:
      if (t < 7) {  // NOLINT(bugprone-branch-clone): two places is the fault
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case Fault::early_return:
      if (t == 9) return;
      __syncthreads();
      break;
    case Fault::half_at_barrier:
      if (t < 16) {
        __syncthreads();
      } else {
        __shfl_sync(0xffffffffu, t, 0);
      }
      break;
    case Fault::returned_from_collective:
      if (t < 16) __ballot_sync(0xffffffffu, 1);
      break;
    case Fault::misaligned_copy:
      cuda::async_copy_16(cuda::dynamic_shared<char>() + 4, memory);
      break;
    case Fault::too_much_shared:
      cuda::shared<float[13000], "large">()[0] = 1;
      break;
  }
}

void check_error(Fault fault, const std::string& text, unsigned threads = 32) {
  for_each_order(7, [&] {
    const DeviceArray<uint4> memory(std::vector<uint4>(1));
    const std::string error = error_of([&] {
      cuda::launch({1, threads, 64}, faulty, fault, memory.data());
    });
    INFO(error);
    CHECK(contains(error, text));
    CHECK(contains(error, "cuda_executor.cpp:"));
    CHECK(contains(error, "seed "));
  });
}

}  // namespace

TEST_CASE("shuffles read the lane that CUDA says, for every width") {
  std::mt19937 engine{std::random_device{}()};
  for_each_order(orders(12), [&] {
    std::vector<int> in(32);
    for (int& x : in) x = static_cast<int>(engine());
    const DeviceArray<int> device(in);
    for (int width = 1; width <= 32; width *= 2) {
      const DeviceArray<int> out(128);
      cuda::launch({1, 32}, shuffles, device.data(), out.data(), width);
      const std::vector<int> result = out.host();
      for (int lane = 0; lane < 32; ++lane) {
        const int segment = lane / width * width;
        const auto value = [&](int i) { return in[static_cast<std::size_t>(i)]; };
        const auto got = [&](int i) { return result[static_cast<std::size_t>(32 * i + lane)]; };
        CHECK(got(0) == value(segment + 3 % width));
        CHECK(got(1) == value(lane - 2 >= segment ? lane - 2 : lane));
        CHECK(got(2) == value(lane + 2 < segment + width ? lane + 2 : lane));
        CHECK(got(3) == value((lane ^ 5) < segment + width ? lane ^ 5 : lane));
      }
    }
  });
}

TEST_CASE("votes and reductions") {
  std::mt19937 engine{std::random_device{}()};
  for_each_order(orders(12), [&] {
    std::vector<int> in(32);
    for (int& x : in) x = static_cast<int>(engine() % 100);
    const DeviceArray<int> device(in);
    const DeviceArray<unsigned> out(256);
    cuda::launch({1, 32}, votes, device.data(), out.data());
    const std::vector<unsigned> result = out.host();
    unsigned odd = 0, exclusive = 0, largest = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      odd |= static_cast<unsigned>(in[i] & 1) << i;
      exclusive ^= static_cast<unsigned>(in[i]);
      largest = std::max(largest, static_cast<unsigned>(in[i] - 50));
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      unsigned alike = 0;
      for (std::size_t i = 0; i < 32; ++i) alike |= (in[i] / 10 == in[lane] / 10 ? 1u : 0u) << i;
      CHECK(result[lane] == odd);
      CHECK(result[32 + lane] == (*std::max_element(in.begin(), in.end()) > 90 ? 1u : 0u));
      CHECK(result[64 + lane] == (*std::max_element(in.begin(), in.end()) < 99 ? 1u : 0u));
      CHECK(result[96 + lane] == alike);
      CHECK(static_cast<int>(result[128 + lane]) == std::accumulate(in.begin(), in.end(), 0));
      CHECK(static_cast<int>(result[160 + lane]) == *std::min_element(in.begin(), in.end()) - 50);
      CHECK(result[192 + lane] == largest);
      CHECK(result[224 + lane] == exclusive);
    }
  });
}

TEST_CASE("parts of a warp with masks of their own") {
  for_each_order(orders(30), [&] {
    const DeviceArray<int> out(32);
    cuda::launch({1, 32}, halves, out.data());
    const std::vector<int> result = out.host();
    for (std::size_t i = 0; i < 32; ++i) CHECK(result[i] == (i < 16 ? 120 : 376));
  });
}

TEST_CASE("barriers hold in every order, in blocks that are no whole number of warps") {
  for_each_order(orders(30), [&] {
    for (unsigned threads : {1u, 31u, 97u, 128u}) {
      const DeviceArray<int> out(3 * threads);
      cuda::launch({3, threads, threads * sizeof(int)}, rounds, out.data(), 5);
      const std::vector<int> result = out.host();
      for (unsigned i = 0; i < 3 * threads; ++i) {
        const unsigned odd = threads / 2, three = threads > 3 ? 1 : 0;
        CHECK(result[i] == static_cast<int>((i % threads + 5) % threads + 1000 * odd +
                                            1000000 * three + 2000000));
      }
    }
  });
}

TEST_CASE("indices of threads and blocks in three dimensions") {
  for_each_order(4, [&] {
    const dim3 grid(2, 3, 4), block(5, 3, 2);
    const DeviceArray<Places> out(24 * 30);
    cuda::launch({grid, block}, places, out.data());
    const std::vector<Places> result = out.host();
    for (unsigned i = 0; i < 24 * 30; ++i) {
      const unsigned b = i / 30, t = i % 30;
      CHECK(result[i].thread.x == t % 5);
      CHECK(result[i].thread.y == t / 5 % 3);
      CHECK(result[i].thread.z == t / 15);
      CHECK(result[i].block.x == b % 2);
      CHECK(result[i].block.y == b / 2 % 3);
      CHECK(result[i].block.z == b / 6);
    }
  });
}

TEST_CASE(
    "cp.async: copies are there after the wait that covers them, zeros where nothing is valid") {
  std::vector<uint4> values(64);
  for (unsigned i = 0; i < 64; ++i) values[i] = uint4{i, i + 100, i + 200, i + 300};
  const DeviceArray<uint4> from(values);
  for_each_order(orders(10), [&] {
    const DeviceArray<uint4> to(64);
    cuda::launch({1, 32}, copy_two_stages, from.data(), to.data(), 0);
    const std::vector<uint4> result = to.host();
    for (unsigned i = 0; i < 64; ++i) {
      const bool valid = i % 32 != 31;
      CHECK(result[i].x == (valid ? i : 0));
      CHECK(result[i].w == (valid ? i + 300 : 0));
    }
    CHECK(contains(error_of([&] {
                     cuda::launch({1, 32}, copy_two_stages, from.data(), to.data(), 1);
                   }),
                   "returned with copies in flight"));
  });
}

TEST_CASE("orders differ by seed, and a seed repeats its order") {
  std::set<std::vector<int>> seen;
  std::vector<int> first;
  for (std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u, 1u}) {
    cuda_host::settings().seed = seed;
    const DeviceArray<int> order(std::vector<int>(65, 0));
    cuda::launch(
        {1, 64}, +[](int* at) { at[1 + atomicAdd(at, 1)] = static_cast<int>(threadIdx.x); },
        order.data());
    seen.insert(order.host());
    if (first.empty()) first = order.host();
  }
  CHECK(seen.size() == 6);
  cuda_host::settings().seed = 0;
}

TEST_CASE("misuse is reported with file, line, thread and seed") {
  check_error(Fault::mask_without_caller, "mask 0xffff lacks the calling lane");
  check_error(Fault::mask_with_returned, "returned");
  check_error(Fault::mask_beyond_block, "names lane 20, which does not exist", 20);
  check_error(Fault::shuffle_outside_mask, "reads lane 20 outside mask 0xffff");
  check_error(Fault::bad_width, "width 12 is not a power of two");
  check_error(Fault::barrier_in_branch, "barrier divergence: thread");
  check_error(Fault::early_return, "barrier divergence:");
  check_error(Fault::half_at_barrier,
              "deadlock, nothing can run; threads 0-15 wait in __syncthreads");
  check_error(Fault::half_at_barrier, "threads 16-31 wait in __shfl_sync, mask 0xffffffff");
  check_error(Fault::returned_from_collective, "__ballot_sync");
  check_error(Fault::misaligned_copy, "not a multiple of 16");
  check_error(Fault::too_much_shared, "a static shared object above 48 KiB");
}

TEST_CASE("a launch that a GPU would refuse") {
  const auto refused = [](dim3 grid, dim3 block, std::size_t shared = 0) {
    return error_of([&] { cuda::launch({grid, block, shared}, places, nullptr); });
  };
  CHECK(contains(refused(1, 1025), "more than 1024 threads"));
  CHECK(contains(refused(dim3(1, 65536), 1), "above 65535"));
  CHECK(contains(refused(dim3(1, 1, 1), dim3(1, 1, 65)), "block.z above 64"));
  CHECK(contains(refused(0, 32), "empty"));
  CHECK(contains(refused(1, 32, 100 * 1024), "more dynamic shared memory"));
}

TEST_CASE("integer intrinsics") {
  CHECK(__brev(0x00000001u) == 0x80000000u);
  CHECK(__brev(0x12345678u) == 0x1e6a2c48u);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7610u) == 0x77661100u);
  CHECK(__byte_perm(0x00008000u, 0u, 0x9999u) == 0xffffffffu);
  CHECK(__funnelshift_r(0x89abcdefu, 0x01234567u, 8) == 0x6789abcdu);
  CHECK(__funnelshift_l(0x89abcdefu, 0x01234567u, 8) == 0x23456789u);
  CHECK(__dp4a(static_cast<int>(0xff02fe03u), 0x01010101, 10) == 12);
  CHECK(__dp4a(0xff02fe03u, 0x01010101u, 10u) == 524u);
  CHECK(__clz(1) == 31);
  CHECK(__ffs(8) == 4);
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__umulhi(0x80000000u, 6u) == 3u);
}

TEST_CASE("division by a product is exact") {
  std::mt19937 engine{std::random_device{}()};
  for (int i = 0; i < 20000; ++i) {
    const int bits = static_cast<int>(engine() % 31);
    const int divisor = static_cast<int>(engine() >> (1 + bits)) + 1 - (bits == 0 ? 1 : 0);
    if (divisor < 1) continue;
    const cuda::FastDivide divide(divisor);
    const int multiple =
        static_cast<int>(engine() % (0x7fffffffu / static_cast<unsigned>(divisor) + 1)) * divisor;
    CAPTURE(divisor);
    for (int n :
         {0, 0x7fffffff, multiple, std::max(0, multiple - 1), static_cast<int>(engine() >> 1)}) {
      CAPTURE(n);
      REQUIRE(divide.quotient(n) == n / divisor);
    }
  }
}

TEST_CASE("elements of every format are those of format.h, bit for bit") {
  namespace kernels = kvlane::kernels;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    float out[8];
    cuda::unpack<kernels::Format::bf16>(uint4{bits | 0x3f800000u, 0, 0, bits << 16}, out);
    CHECK(std::bit_cast<unsigned>(out[0]) == std::bit_cast<unsigned>(kernels::from_bf16(word)));
    CHECK(out[1] == 1.0f);
    CHECK(std::bit_cast<unsigned>(out[7]) == std::bit_cast<unsigned>(kernels::from_bf16(word)));
    cuda::unpack<kernels::Format::fp16>(uint4{bits | 0x3c000000u, 0, 0, bits << 16}, out);
    const float expected = kernels::from_fp16(word);
    CHECK((std::isnan(expected) ? std::isnan(out[0]) : out[0] == expected));
    CHECK(out[1] == 1.0f);
  }
  std::mt19937 engine{std::random_device{}()};
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (std::isnan(value)) continue;
    std::uint16_t ours = 0;
    cuda::store_element<kernels::Format::bf16>(&ours, 0, value);
    CHECK(ours == kernels::to_bf16(value));
    cuda::store_element<kernels::Format::fp16>(&ours, 0, value);
    CHECK(ours == kernels::to_fp16(value));
  }
}
