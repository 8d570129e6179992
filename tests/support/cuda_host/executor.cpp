#include "tests/support/cuda_host/executor.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "tests/support/cuda_host/block.h"

namespace cuda_host {

Settings& settings() {
  static Settings the_settings;
  return the_settings;
}

Executor& executor() {
  static Executor the_executor;
  return the_executor;
}

Order order_of(std::uint64_t seed) {
  if (seed == 0) return Order::in_turn;
  constexpr Order kOrders[] = {Order::uniform, Order::lanes, Order::warps};
  return kOrders[(seed - 1) % 3];
}

const char* short_name(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash != nullptr ? slash + 1 : file;
}

namespace {

// Appends to the error of the launch.
__attribute__((format(printf, 2, 3))) void say(Executor& e, const char* format, ...);
void say_list(Executor& e, const char* format, va_list values) {
  const Unseen unseen;
  const std::size_t used = std::strlen(e.error);
  std::vsnprintf(e.error + used, sizeof e.error - used, format, values);
}
void say(Executor& e, const char* format, ...) {
  va_list values;
  va_start(values, format);
  say_list(e, format, values);
  va_end(values);
}

void say_who(Executor& e) {
  const uint3 b = e.block.index, t = e.current->index;
  e.error[0] = 0;
  say(e, "kernel launched at %s:%d, block (%u,%u,%u), thread (%u,%u,%u), seed %llu: ",
      short_name(e.grid.site.file), e.grid.site.line, b.x, b.y, b.z, t.x, t.y, t.z,
      static_cast<unsigned long long>(settings().seed));
}

bool same(Site a, Site b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

const char* refused(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || std::uint64_t{grid.x} * grid.y * grid.z == 0) return "an empty grid or block";
  if (threads > 1024) return "more than 1024 threads a block";
  if (block.z > 64) return "block.z above 64";
  if (grid.y > 65535 || grid.z > 65535) return "grid.y or grid.z above 65535";
  if (grid.x > 0x7fffffffu) return "grid.x above 2^31 - 1";
  if (shared_bytes > settings().shared_limit)
    return "more dynamic shared memory than a block can have";
  return nullptr;
}

// Where every fiber begins.
void lane_entry() {
  Executor& e = executor();
  acquire(e.begin_cell());
  e.grid.kernel(e.grid.arguments);
  Lane& lane = *e.current;
  Block& block = e.block;
  if (!lane.copies.empty()) {
    fail(lane.copies.front().site, "returned with copies in flight, never waited for: cp.async");
  }
  if (block.barrier.arrived > 0) {
    fail(block.barrier.site, "barrier divergence: returned while thread %d waits at a barrier",
         block.barrier.first_lane);
  }
  Warp& warp = block.warps[static_cast<std::size_t>(lane.warp())];
  for (const Group& group : warp.groups) {
    if (group.arrived != 0 && (group.mask & lane.bit()) != 0) {
      const int first = lane.warp() * 32 + __builtin_ctz(group.arrived);
      const Lane& other = block.lanes[static_cast<std::size_t>(first)];
      fail(other.site, "returned while thread %d waits for it in %s", first, other.waits_at);
    }
  }
  warp.returned |= lane.bit();
  lane.returned = true;
  if (block.returned++ == 0) block.first_returned = lane.number;
  release(e.end_cell());
  e.leave();
}

void free_shared(Block& block) {
  const Unseen unseen;
  for (const SharedObject& object : block.shared) std::free(object.memory);
  block.shared.clear();
  block.shared_bytes = 0;
}

void begin_block(Executor& e, std::uint64_t linear) {
  const Unseen unseen;
  Block& block = e.block;
  const uint3 blocks = e.grid.blocks, threads = e.grid.threads;
  block.index = uint3{static_cast<unsigned>(linear % blocks.x),
                      static_cast<unsigned>(linear / blocks.x % blocks.y),
                      static_cast<unsigned>(linear / blocks.x / blocks.y)};
  block.threads = static_cast<int>(threads.x * threads.y * threads.z);
  block.returned = 0;
  block.barrier = Barrier{};
  const auto lanes = static_cast<std::size_t>(block.threads);
  block.lanes.resize(lanes);
  block.warps.assign((lanes + 31) / 32, Warp{});
  block.cells =
      std::make_unique<std::uint64_t[]>(4 + block.warps.size() * Block::kGroupsOfAWarp * 2);
  auto& fibers = e.fibers[e.blocks_run % 2];
  while (fibers.size() < lanes) fibers.push_back(std::make_unique<Fiber>());
  e.ready.reset(block.threads, e.order, e.dice);
  for (std::size_t i = 0; i < lanes; ++i) {
    Lane& lane = block.lanes[i];
    lane.number = static_cast<int>(i);
    lane.index = uint3{static_cast<unsigned>(i) % threads.x,
                       static_cast<unsigned>(i) / threads.x % threads.y,
                       static_cast<unsigned>(i) / threads.x / threads.y};
    lane.returned = false;
    lane.call = nullptr;
    lane.copies.clear();
    lane.commits = 0;
    // Rotated: so that a lane is not ordered after the same lane of an earlier block.
    lane.fiber = fibers[(i + e.blocks_run * 7) % fibers.size()].get();
    lane.fiber->start(&lane_entry);
    block.warps[i / 32].exists |= lane.bit();
    e.ready.add(lane.number);
  }
  for (Warp& warp : block.warps) warp.groups.reserve(Block::kGroupsOfAWarp);
  ++e.blocks_run;
}

void run_block(Executor& e, std::uint64_t linear) {
  begin_block(e, linear);
  e.current = &e.block.lanes[static_cast<std::size_t>(e.ready.take())];
  Fiber::swap(e.launcher, *e.current->fiber);
  e.current = nullptr;
  if (e.failed) {
    for (Lane& lane : e.block.lanes) {
      if (!lane.returned) lane.fiber->abandon(e.launcher, e.end_cell());
    }
  }
  free_shared(e.block);
}

}  // namespace

void launch(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(void*), void* arguments,
            Site site) {
  Executor& e = executor();
  const std::string where = std::string("launch at ") + short_name(site.file) + ":" +
                            std::to_string(site.line) + " refused: ";
  if (e.running) throw LaunchError(where + "it is within a launch");
  if (const char* problem = refused(grid, block, shared_bytes)) throw LaunchError(where + problem);
  e.grid = Grid{uint3{grid.x, grid.y, grid.z},
                uint3{block.x, block.y, block.z},
                shared_bytes,
                kernel,
                arguments,
                site};
  e.dice = Dice(settings().seed * 0x100000001b3u + 1);
  e.order = order_of(settings().seed);
  e.failed = false;
  std::vector<std::uint64_t> order(std::uint64_t{grid.x} * grid.y * grid.z);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (e.order != Order::in_turn) e.dice.shuffle(order);
  release(e.begin_cell());
  e.running = true;
  for (std::uint64_t linear : order) {
    run_block(e, linear);
    if (e.failed) break;
  }
  e.running = false;
  acquire(e.end_cell());
  if (e.failed) throw LaunchError(e.error);
}

void Executor::wait(const char* what, unsigned mask, Site site) {
  Lane& lane = *current;
  lane.waits_at = what;
  lane.mask = mask;
  lane.site = site;
  const int next = ready.take();
  if (next < 0) {
    deadlock();
  }
  if (next == lane.number) return;
  current = &block.lanes[static_cast<std::size_t>(next)];
  Fiber::swap(*lane.fiber, *current->fiber);
}

void Executor::leave() {
  Lane& lane = *current;
  const int next = ready.take();
  if (next >= 0) {
    current = &block.lanes[static_cast<std::size_t>(next)];
    Fiber::leave(*lane.fiber, *current->fiber);
  }
  if (block.returned < block.threads) {
    deadlock();
  }
  Fiber::leave(*lane.fiber, launcher);
}

void Executor::deadlock() {
  say_who(*this);
  say(*this, "deadlock, nothing can run");
  for (std::size_t i = 0; i < block.lanes.size();) {
    const Lane& lane = block.lanes[i];
    std::size_t end = i + 1;
    while (end < block.lanes.size() && block.lanes[end].returned == lane.returned &&
           block.lanes[end].waits_at == lane.waits_at && block.lanes[end].mask == lane.mask &&
           same(block.lanes[end].site, lane.site)) {
      ++end;
    }
    if (!lane.returned) {
      say(*this, "; threads %zu-%zu wait in %s, mask 0x%x, %s:%d", i, end - 1, lane.waits_at,
          lane.mask, short_name(lane.site.file), lane.site.line);
    }
    i = end;
  }
  failed = true;
  Fiber::leave(*current->fiber, launcher);
}

void fail(Site site, const char* format, ...) {
  Executor& e = executor();
  say_who(e);
  va_list values;
  va_start(values, format);
  say_list(e, format, values);
  va_end(values);
  say(e, " at %s:%d", short_name(site.file), site.line);
  e.failed = true;
  Fiber::leave(*e.current->fiber, e.launcher);
}

uint3 thread_idx() { return executor().current->index; }
uint3 block_idx() { return executor().block.index; }
uint3 block_dim() { return executor().grid.threads; }
uint3 grid_dim() { return executor().grid.blocks; }
int lane_in_warp() { return executor().current->number % 32; }

void* shared_object(const void* key, std::size_t bytes, std::size_t alignment) {
  Block& block = executor().block;
  for (const SharedObject& object : block.shared) {
    if (object.key == key) return object.memory;
  }
  const Site site = executor().grid.site;
  if (key != nullptr && bytes > 48 * 1024) fail(site, "a static shared object above 48 KiB");
  block.shared_bytes += bytes;
  if (block.shared_bytes > settings().shared_limit) {
    fail(site, "more shared memory than a block can have: %zu bytes", block.shared_bytes);
  }
  const Unseen unseen;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment,
                     bytes == 0 ? 1 : bytes) != 0) {
    std::abort();
  }
  std::memset(memory, 0xff, bytes);
  poison_uninitialised(memory, bytes);
  block.shared.push_back(SharedObject{key, memory, bytes});
  return memory;
}

void* dynamic_shared_object(std::size_t alignment) {
  return shared_object(nullptr, executor().grid.dynamic_shared_bytes, alignment);
}

}  // namespace cuda_host
