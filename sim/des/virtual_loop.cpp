#include "sim/des/virtual_loop.h"

#include <limits>

namespace kvlane {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr unsigned kSlotBits = 24;  // 16.7 million pending events; 2^40 events a run
constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;
constexpr std::uint64_t kNoSlot = ~0ULL;
constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kSweepAbove = 64;  // cancelled keys that are never worth a sweep

// Times are never negative, so that one unsigned comparison orders (time, tie) without a branch.
template <class Key>
bool before(const Key& a, const Key& b) {
  return ((static_cast<Uint128>(a.time) << 64U) | a.tie) <
         ((static_cast<Uint128>(b.time) << 64U) | b.tie);
}

}  // namespace

VirtualLoop::VirtualLoop() : free_slot_(kNoSlot) {}

TimerId VirtualLoop::schedule_at(TimePoint at_time, Callback callback) {
  KVLANE_CHECK(at_time >= now_, "event at {} ps, now {} ps", at_time.time_since_epoch().count(),
               now_.time_since_epoch().count());
  std::uint64_t slot = free_slot_;
  if (slot != kNoSlot) [[likely]] {
    free_slot_ = slots_[slot].callback.argument;
  } else {
    slot = slots_.size();
    KVLANE_CHECK(slot <= kSlotMask, "too many pending events: {}", slot);
    slots_.emplace_back();
  }
  KVLANE_CHECK(++sequence_ < (1ULL << (64 - kSlotBits)), "too many events: {}", sequence_);
  const Key key{static_cast<std::uint64_t>(at_time.time_since_epoch().count()),
                (sequence_ << kSlotBits) | slot};
  slots_[slot] = {key.tie, callback};
  ++pending_;
  if (hole_) {
    hole_ = false;
    sift_down(0, key);
  } else {
    if (((size_ + 3) >> 2U) >= groups_.size()) {
      const Key last{kLast, kLast};
      groups_.push_back({{last, last, last, last}});
    }
    sift_up(size_++, key);
  }
  return {key.tie};
}

bool VirtualLoop::cancel(TimerId timer) {
  const std::uint64_t slot = timer.value & kSlotMask;
  if (timer.value == 0 || slot >= slots_.size() || slots_[slot].tie != timer.value) return false;
  slots_[slot].tie = 0;
  slots_[slot].callback.argument = free_slot_;
  free_slot_ = slot;
  --pending_;
  if (size_ > 2 * pending_ + kSweepAbove) sweep();
  return true;
}

void VirtualLoop::run() {
  while (run_one()) {
  }
}

bool VirtualLoop::run_one() {
  if (hole_) remove_top();  // a callback has thrown
  for (;;) {
    if (size_ == 0) return false;
    const Key key = groups_[0].key[3];
    const std::uint64_t slot = key.tie & kSlotMask;
    if (slots_[slot].tie != key.tie) {
      remove_top();
      continue;
    }
    now_ = TimePoint(Duration(static_cast<std::int64_t>(key.time)));
    const Callback callback = slots_[slot].callback;
    slots_[slot].tie = 0;
    slots_[slot].callback.argument = free_slot_;
    free_slot_ = slot;
    --pending_;
    ++executed_;
    hole_ = true;
    callback();
    if (hole_) remove_top();
    return true;
  }
}

void VirtualLoop::sift_up(std::size_t p, Key key) {
  while (p > 0) {
    const std::size_t parent = (p - 1) >> 2U;
    const Key above = at(parent);
    if (!before(key, above)) break;
    at(p) = above;
    p = parent;
  }
  at(p) = key;
}

void VirtualLoop::sift_down(std::size_t p, Key key) {
  for (;;) {
    if (4 * p + 1 >= size_) break;
    const Group& group = groups_[p + 1];
    const std::size_t left = before(group.key[1], group.key[0]) ? 1 : 0;
    const std::size_t right = before(group.key[3], group.key[2]) ? 3 : 2;
    const std::size_t least = before(group.key[right], group.key[left]) ? right : left;
    if (!before(group.key[least], key)) break;
    at(p) = group.key[least];
    p = 4 * p + 1 + least;
  }
  at(p) = key;
}

void VirtualLoop::remove_top() {
  hole_ = false;
  --size_;
  const Key last = at(size_);
  at(size_) = {kLast, kLast};
  if (size_ > 0) sift_down(0, last);
}

// Keeps living keys only and rebuilds the heap bottom-up.
void VirtualLoop::sweep() {
  hole_ = false;  // its slot is free, so that the key counts as cancelled
  const std::size_t before_sweep = size_;
  size_ = 0;
  for (std::size_t p = 0; p < before_sweep; ++p) {
    const Key key = at(p);
    if (slots_[key.tie & kSlotMask].tie == key.tie) at(size_++) = key;
  }
  for (std::size_t p = size_; p < before_sweep; ++p) at(p) = {kLast, kLast};
  for (std::size_t p = size_ / 4 + 1; p-- > 0;) {
    if (p < size_) sift_down(p, at(p));
  }
}

}  // namespace kvlane
