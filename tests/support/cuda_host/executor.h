#pragma once
// Runs a CUDA kernel that was compiled as plain C++: every CUDA thread ("lane") is a fiber, one OS
// thread runs them all, blocks one after another, in an order that a seed decides. A lane gives way
// only where it waits: at a barrier or a warp collective.
//
// Reported at once, with file and line: masks without the caller or with a lane that has returned
// or does not exist, a shuffle from a lane outside the mask, barriers that not all threads reach or
// that they reach at different places, deadlock (who waits where), copies in flight at return,
// launches that a GPU would refuse. Data races, bad addresses and uninitialised reads are the
// sanitizers' part.
//
// Not seen: code that spins on another lane's flag hangs; what real instructions round differently.

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace cuda_host {

struct Site {
  const char* file;
  int line;
};

class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Order {
  in_turn,  // the lowest lane that can run
  uniform,  // any
  lanes,    // a random order of lanes, kept for the block
  warps,    // a random order of warps that rarely changes: drives one warp far ahead of the others,
            // which is what breaks a missing second barrier
};

struct Settings {
  std::uint64_t seed = 0;
  // Of all threads of a block, static and dynamic. 99 KiB: the least of compute capability 8.0
  // to 9.0 (8.6, 8.9; CUDA C++ Programming Guide, "Technical Specifications per Compute
  // Capability").
  std::size_t shared_limit = 99 * 1024;
  int multiprocessors = 4;  // what a launcher is told that splits work to fill the GPU
};
Settings& settings();
// The order that a seed stands for: in turn for 0, then uniform, lanes and warps in rotation.
Order order_of(std::uint64_t seed);

void launch(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(void*), void* arguments,
            Site site);

// ---- for the running lane ----
uint3 thread_idx();
uint3 block_idx();
uint3 block_dim();
uint3 grid_dim();
int lane_in_warp();

// Ends the launch with an error. The lane's stack is left as it is, so nothing on it may own
// memory.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));

// One object a block for every key; exact size, uninitialised (0xff, poisoned for MemorySanitizer).
void* shared_object(const void* key, std::size_t bytes, std::size_t alignment);
void* dynamic_shared_object(std::size_t alignment);

enum class BarrierResult { none, count, all, any };
int sync_threads(BarrierResult kind, int predicate, const char* name, Site site);
void fence_block();
void fence_device();

// Copies that complete later: at issue or at the wait that covers them, as the seed decides. `copy`
// is compiled with the kernel, so that sanitizers see it.
using CopyFunction = void (*)(void* to, const void* from, int bytes, int zeros);
void async_copy(void* to, const void* from, int bytes, int zeros, CopyFunction copy, Site site);
void async_commit();
void async_wait(int groups_in_flight);  // 0: all

enum class WarpOp : std::uint8_t {
  sync,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  match_any,
  add,
  min_signed,
  max_signed,
  min_unsigned,
  max_unsigned,
  bit_and,
  bit_or,
  bit_xor,
  load_matrix,
  multiply_bf16,
  multiply_fp16,
  multiply_s8,
  multiply_u8
};

// What a lane brings to a warp collective and takes from it. The last one to arrive fills in `out`
// of all.
struct WarpCall {
  WarpOp op = WarpOp::sync;
  unsigned mask = 0xffffffffu;
  Site site{};
  const char* name = "";
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  int operand = 0, width = 32;       // shuffles
  const std::uint32_t* a = nullptr;  // matrix operands in registers, see mma.h
  const std::uint32_t* b = nullptr;
  std::uint32_t* c = nullptr;  // in and out
};
void warp_collective(WarpCall& call);

}  // namespace cuda_host
