#pragma once
// The executor's own state of the block that runs: lanes, warps, shared memory.

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/cuda_host/executor.h"
#include "tests/support/cuda_host/fiber.h"
#include "tests/support/cuda_host/ready.h"
#include "tests/support/cuda_host/sanitize.h"

namespace cuda_host {

struct AsyncCopy {
  void* to;
  const void* from;
  int bytes, zeros;
  CopyFunction copy;
  bool done;
  int group;  // number of commits before it
  Site site;
};

struct Lane {
  Fiber* fiber = nullptr;
  uint3 index{};
  int number = 0;  // in the block
  bool returned = false;
  const char* waits_at = "";  // what and where, last
  unsigned mask = 0;
  Site site{};
  WarpCall* call = nullptr;
  std::vector<AsyncCopy> copies;  // not waited for yet, oldest first
  int commits = 0;

  int warp() const { return number / 32; }
  unsigned bit() const { return 1u << (number % 32); }
};

// A collective that some lanes of a warp have reached. A closed one stays for its mask, so that
// cells are never shared between different masks, which would order what nothing orders.
struct Group {
  WarpOp op = WarpOp::sync;
  unsigned mask = 0, arrived = 0;
  unsigned generation = 0;
};

struct Warp {
  unsigned exists = 0, returned = 0;
  std::vector<Group> groups;
};

struct SharedObject {
  const void* key;
  void* memory;
  std::size_t bytes;
};

struct Barrier {
  int arrived = 0, sum = 0;
  unsigned generation = 0;
  Site site{};
  int first_lane = 0;
  std::array<int, 2> result{};
};

struct Block {
  uint3 index{};
  int threads = 0, returned = 0, first_returned = 0;
  std::vector<Lane> lanes;
  std::vector<Warp> warps;
  std::vector<SharedObject> shared;
  std::size_t shared_bytes = 0;
  Barrier barrier;
  // Cells for release and acquire: two of the barrier, one of block fences, two of each group of a
  // warp by turns (the fast lane's next arrival must not hide a write after a read). Fresh a block.
  std::unique_ptr<std::uint64_t[]> cells;

  static constexpr std::size_t kGroupsOfAWarp = 64;
  void* barrier_cell(unsigned generation) { return &cells[generation & 1]; }
  void* fence_cell() { return &cells[2]; }
  void* group_cell(std::size_t warp, std::size_t group, unsigned generation) {
    return &cells[4 + (warp * kGroupsOfAWarp + group) * 2 + (generation & 1)];
  }
};

struct Grid {
  uint3 blocks{}, threads{};
  std::size_t dynamic_shared_bytes = 0;
  void (*kernel)(void*) = nullptr;
  void* arguments = nullptr;
  Site site{};
};

struct Executor {
  Grid grid;
  Block block;
  Lane* current = nullptr;
  ReadyLanes ready;
  Dice dice{0};
  Order order = Order::in_turn;
  char error[8192] = "";  // not a string: it is written on a stack that is then left for good
  bool failed = false;
  bool running = false;
  Fiber launcher{Fiber::ThisThread{}};
  // A fiber remembers, for ThreadSanitizer, what the barriers of its last block taught it; two sets
  // used in turn keep neighbouring blocks unordered.
  std::array<std::vector<std::unique_ptr<Fiber>>, 2> fibers;
  unsigned blocks_run = 0;
  std::unique_ptr<std::uint64_t[]> launch_cells = std::make_unique<std::uint64_t[]>(4);

  void* begin_cell() { return &launch_cells[0]; }
  void* end_cell() { return &launch_cells[1]; }
  void* fence_cell() { return &launch_cells[2]; }

  // The current lane waits; returns when it is taken from `ready` again.
  void wait(const char* what, unsigned mask, Site site);
  // Of the current lane, for good: to the next lane that can run, or to the launcher.
  [[noreturn]] void leave();
  [[noreturn]] void deadlock();
};
Executor& executor();
const char* short_name(const char* file);

// Results of a collective whose lanes have all arrived (warp.cpp).
void complete(Block& block, int warp, unsigned mask);

}  // namespace cuda_host
