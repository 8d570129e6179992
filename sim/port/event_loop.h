#pragma once
// The clock and the queue behind which a world lives: virtual (sim/des) or wall clock.
// Callbacks run from run(), never inside schedule_at(); equal times run in the order in which they
// were scheduled. now() stands still inside a callback, on a wall clock too. One thread.

#include <cstdint>

#include "sim/base/units.h"

namespace kvlane {

// A plain function with its context: trivially copyable, no allocation. `context` outlives the
// call.
struct Callback {
  void (*function)(void* context, std::uint64_t argument) = nullptr;
  void* context = nullptr;
  std::uint64_t argument = 0;
  void operator()() const { function(context, argument); }
  explicit operator bool() const { return function != nullptr; }
};

// Names a scheduled callback until it has run or was cancelled; default constructed: none.
struct TimerId {
  std::uint64_t value = 0;
  constexpr bool operator==(const TimerId&) const = default;
  explicit constexpr operator bool() const { return value != 0; }
};

class EventLoop {
 public:
  EventLoop() = default;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  virtual ~EventLoop() = default;

  virtual TimePoint now() const = 0;
  // `at` before now() is a broken invariant. Never runs the callback itself.
  virtual TimerId schedule_at(TimePoint at, Callback callback) = 0;
  // False when it has run already or was cancelled before.
  virtual bool cancel(TimerId timer) = 0;
  // Runs until nothing is pending (in the live world: and no operation is in flight).
  virtual void run() = 0;

  TimerId schedule_after(Duration delay, Callback callback) {
    return schedule_at(later(now(), delay), callback);
  }
};

}  // namespace kvlane
