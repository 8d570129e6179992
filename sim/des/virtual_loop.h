#pragma once
// The event loop of the simulated world: an integer-picosecond clock that jumps to the next event.
// Total order of events: (time, order of scheduling). Cancelling is O(log n) and frees the slot.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/port/event_loop.h"

namespace kvlane {

class VirtualLoop final : public EventLoop {
 public:
  VirtualLoop() = default;
  ~VirtualLoop() override = default;

  TimePoint now() const override { return now_; }
  TimerId schedule_at(TimePoint at, Callback callback) override;
  bool cancel(TimerId timer) override;
  void run() override;
  // Runs one event; false when none is pending.
  bool run_one();
  std::size_t pending() const;
  std::uint64_t executed() const { return executed_; }

 private:
  TimePoint now_{};
  std::uint64_t executed_ = 0;
  // (the implementer of this file adds the queue here)
};

}  // namespace kvlane
