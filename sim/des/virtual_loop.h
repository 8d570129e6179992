#pragma once
// The event loop of the simulated world: an integer-picosecond clock that jumps to the next event.
// Total order of events: (time, order of scheduling). Cancelling is O(1) amortised and frees the
// slot at once. Steady state allocates nothing.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/port/event_loop.h"

namespace kvlane {

class VirtualLoop final : public EventLoop {
 public:
  VirtualLoop();
  ~VirtualLoop() override = default;

  TimePoint now() const override { return now_; }
  TimerId schedule_at(TimePoint at, Callback callback) override;
  bool cancel(TimerId timer) override;
  void run() override;
  // Runs one event; false when none is pending.
  bool run_one();
  std::size_t pending() const { return pending_; }
  std::uint64_t executed() const { return executed_; }

 private:
  // A 4-ary heap of 16-byte keys. `tie` is sequence * 2^24 + slot: it orders equal times by
  // sequence, finds the callback, and is the TimerId. A key whose tie is no longer in its slot was
  // cancelled; it is skipped at the top, or swept when such keys outnumber the living.
  struct Key {
    std::uint64_t time;
    std::uint64_t tie;
  };
  // The four children of one node fill one cache line. Key p lies at flat place p + 3, so that the
  // children of p are exactly group p + 1. Places past the end hold the largest key.
  struct alignas(64) Group {
    Key key[4];
  };
  struct Slot {
    std::uint64_t tie;  // 0: free
    Callback callback;  // free: argument is the next free slot
  };

  Key& at(std::size_t p) { return groups_[(p + 3) >> 2U].key[(p + 3) & 3U]; }
  void sift_up(std::size_t p, Key key);
  void sift_down(std::size_t p, Key key);
  void remove_top();
  void sweep();

  TimePoint now_{};
  std::uint64_t executed_ = 0;
  std::uint64_t sequence_ = 0;
  std::size_t size_ = 0;     // keys in the heap, cancelled ones and the hole included
  std::size_t pending_ = 0;  // events that will run
  // While a callback runs its key stays at the top as a hole: what it schedules first takes the
  // place, which saves one of the two heap operations of an event that schedules the next.
  bool hole_ = false;
  std::uint64_t free_slot_;
  std::vector<Group> groups_;
  std::vector<Slot> slots_;
};

}  // namespace kvlane
