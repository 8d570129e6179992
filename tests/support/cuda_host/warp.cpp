// Barriers, warp collectives, fences and asynchronous copies of the executor.

#include <cstdint>
#include <cstring>

#include "tests/support/cuda_host/block.h"
#include "tests/support/cuda_host/mma.h"

namespace cuda_host {

int sync_threads(BarrierResult kind, int predicate, const char* name, Site site) {
  Executor& e = executor();
  Block& block = e.block;
  Barrier& barrier = block.barrier;
  if (block.returned > 0) {
    fail(site, "barrier divergence: thread %d has returned and never reaches %s",
         block.first_returned, name);
  }
  if (barrier.arrived == 0) {
    barrier.site = site;
    barrier.first_lane = e.current->number;
    barrier.sum = 0;
  } else if (barrier.site.line != site.line || std::strcmp(barrier.site.file, site.file) != 0) {
    fail(site, "barrier divergence: thread %d waits at %s:%d, this one came to %s",
         barrier.first_lane, short_name(barrier.site.file), barrier.site.line, name);
  }
  const unsigned generation = barrier.generation;
  release(block.barrier_cell(generation));
  barrier.sum += predicate != 0;
  if (++barrier.arrived == block.threads) {
    barrier.result[generation & 1] = barrier.sum;
    barrier.arrived = 0;
    ++barrier.generation;
    for (const Lane& lane : block.lanes) e.ready.add(lane.number);
  }
  e.wait(name, 0xffffffffu, site);
  acquire(block.barrier_cell(generation));
  const int sum = barrier.result[generation & 1];
  switch (kind) {
    case BarrierResult::none:
      return 0;
    case BarrierResult::count:
      return sum;
    case BarrierResult::all:
      return sum == block.threads;
    case BarrierResult::any:
      return sum > 0;
  }
  return 0;
}

// A fence orders what is before it in the lane before what follows a later fence of another one.
void fence_block() {
  acquire(executor().block.fence_cell());
  release(executor().block.fence_cell());
}
void fence_device() {
  acquire(executor().fence_cell());
  release(executor().fence_cell());
  fence_block();
}

namespace {

// The lane that a shuffle reads (CUDA C++ Programming Guide, "Warp Shuffle Functions"); its own
// value where the source falls out of its segment.
int source_of(const WarpCall& call, int lane) {
  const int segment = lane & ~(call.width - 1), last = segment + call.width - 1;
  switch (call.op) {
    case WarpOp::shuffle:
      return segment + (call.operand & (call.width - 1));
    case WarpOp::shuffle_up:
      return lane - call.operand < segment ? lane : lane - call.operand;
    case WarpOp::shuffle_down:
      return lane + call.operand > last ? lane : lane + call.operand;
    default:
      return (lane ^ call.operand) > last ? lane : lane ^ call.operand;
  }
}

bool is_shuffle(WarpOp op) { return op >= WarpOp::shuffle && op <= WarpOp::shuffle_xor; }

std::size_t group_for(Warp& warp, WarpOp op, unsigned mask, Site site) {
  std::size_t closed = warp.groups.size();
  for (std::size_t i = 0; i < warp.groups.size(); ++i) {
    if (warp.groups[i].op == op && warp.groups[i].mask == mask) return i;
    if (warp.groups[i].arrived == 0) closed = i;
  }
  if (warp.groups.size() < Block::kGroupsOfAWarp) {
    warp.groups.push_back(Group{op, mask, 0, 0});  // within the reserved room: no allocation
    return warp.groups.size() - 1;
  }
  if (closed == warp.groups.size()) fail(site, "more than 64 collectives of one warp are open");
  warp.groups[closed].op = op;
  warp.groups[closed].mask = mask;
  return closed;
}

void check(const WarpCall& call, const Lane& lane, const Warp& warp) {
  if ((call.mask & lane.bit()) == 0) {
    fail(call.site, "%s: mask 0x%x lacks the calling lane %d", call.name, call.mask,
         lane.number % 32);
  }
  if ((call.mask & ~warp.exists) != 0) {
    fail(call.site, "%s: mask 0x%x names lane %d, which does not exist", call.name, call.mask,
         __builtin_ctz(call.mask & ~warp.exists));
  }
  if ((call.mask & warp.returned) != 0) {
    fail(call.site, "%s: mask 0x%x names lane %d, which has returned", call.name, call.mask,
         __builtin_ctz(call.mask & warp.returned));
  }
  if (is_shuffle(call.op)) {
    if (call.width < 1 || call.width > 32 || (call.width & (call.width - 1)) != 0) {
      fail(call.site, "%s: width %d is not a power of two up to 32", call.name, call.width);
    }
    const int source = source_of(call, lane.number % 32);
    if (source < 0 || (call.mask >> source & 1) == 0) {
      fail(call.site, "%s: reads lane %d outside mask 0x%x", call.name, source, call.mask);
    }
  }
}

}  // namespace

void warp_collective(WarpCall& call) {
  Executor& e = executor();
  Block& block = e.block;
  Lane& lane = *e.current;
  const auto number = static_cast<std::size_t>(lane.warp());
  Warp& warp = block.warps[number];
  check(call, lane, warp);
  const std::size_t index = group_for(warp, call.op, call.mask, call.site);
  Group& group = warp.groups[index];
  const unsigned generation = group.generation;
  // Only __syncwarp orders memory; votes and shuffles do not (Programming Guide).
  const bool orders = call.op == WarpOp::sync;
  if (orders) release(block.group_cell(number, index, generation));
  lane.call = &call;
  group.arrived |= lane.bit();
  if (group.arrived == group.mask) {
    complete(block, lane.warp(), call.mask);
    group.arrived = 0;
    ++group.generation;
    for (unsigned left = call.mask; left != 0; left &= left - 1) {
      e.ready.add(lane.warp() * 32 + __builtin_ctz(left));
    }
  }
  e.wait(call.name, call.mask, call.site);
  if (orders) acquire(block.group_cell(number, index, generation));
}

void complete(Block& block, int warp, unsigned mask) {
  std::array<WarpCall*, 32> calls{};
  for (unsigned left = mask; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(__builtin_ctz(left));
    calls[i] = block.lanes[static_cast<std::size_t>(warp) * 32 + i].call;
  }
  const auto first = static_cast<std::size_t>(__builtin_ctz(mask));
  const WarpOp op = calls[first]->op;
  if (op >= WarpOp::load_matrix) {
    complete_matrix(calls, mask);
    return;
  }
  if (is_shuffle(op)) {
    for (int i = 0; i < 32; ++i) {
      WarpCall* call = calls[static_cast<std::size_t>(i)];
      if (call != nullptr) call->out = calls[static_cast<std::size_t>(source_of(*call, i))]->in;
    }
    return;
  }
  std::uint64_t result =
      op == WarpOp::all || op == WarpOp::any || op == WarpOp::ballot || op == WarpOp::sync
          ? 0
          : calls[first]->in;
  unsigned ballot = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    if (calls[i] == nullptr) continue;
    const std::uint64_t value = calls[i]->in;
    const auto bits = static_cast<std::uint32_t>(value), best = static_cast<std::uint32_t>(result);
    if (op == WarpOp::ballot || op == WarpOp::any || op == WarpOp::all) {
      ballot |= value != 0 ? 1u << i : 0u;
    } else if (op == WarpOp::match_any) {
      unsigned same = 0;
      for (std::size_t j = 0; j < 32; ++j) {
        if (calls[j] != nullptr && calls[j]->in == value) same |= 1u << j;
      }
      calls[i]->out = same;
    } else if (i != first) {
      switch (op) {
        case WarpOp::add:
          result = best + bits;
          break;
        case WarpOp::min_unsigned:
          result = bits < best ? bits : best;
          break;
        case WarpOp::max_unsigned:
          result = bits > best ? bits : best;
          break;
        case WarpOp::min_signed:
          result = static_cast<std::int32_t>(bits) < static_cast<std::int32_t>(best) ? bits : best;
          break;
        case WarpOp::max_signed:
          result = static_cast<std::int32_t>(bits) > static_cast<std::int32_t>(best) ? bits : best;
          break;
        case WarpOp::bit_and:
          result = best & bits;
          break;
        case WarpOp::bit_or:
          result = best | bits;
          break;
        case WarpOp::bit_xor:
          result = best ^ bits;
          break;
        default:
          break;
      }
    }
  }
  if (op == WarpOp::match_any || op == WarpOp::sync) return;
  if (op == WarpOp::ballot) result = ballot;
  if (op == WarpOp::any) result = ballot != 0;
  if (op == WarpOp::all) result = ballot == mask;
  for (WarpCall* call : calls) {
    if (call != nullptr) call->out = result;
  }
}

void async_copy(void* to, const void* from, int bytes, int zeros, CopyFunction copy, Site site) {
  Executor& e = executor();
  Lane& lane = *e.current;
  const auto size = static_cast<std::uintptr_t>(bytes + zeros);
  if (reinterpret_cast<std::uintptr_t>(to) % size != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % size != 0) {
    fail(site, "cp.async: an address that is not a multiple of %zu",
         static_cast<std::size_t>(size));
  }
  const bool now = e.order != Order::in_turn && e.dice.below(2) == 0;
  if (now) copy(to, from, bytes, zeros);
  const Unseen unseen;
  lane.copies.push_back(AsyncCopy{to, from, bytes, zeros, copy, now, lane.commits, site});
}

void async_commit() { ++executor().current->commits; }

void async_wait(int groups_in_flight) {
  Lane& lane = *executor().current;
  std::size_t covered = 0;
  while (covered < lane.copies.size() &&
         lane.copies[covered].group + groups_in_flight < lane.commits) {
    const AsyncCopy& copy = lane.copies[covered++];
    if (!copy.done) copy.copy(copy.to, copy.from, copy.bytes, copy.zeros);
  }
  const Unseen unseen;
  lane.copies.erase(lane.copies.begin(),
                    lane.copies.begin() + static_cast<std::ptrdiff_t>(covered));
}

}  // namespace cuda_host
