#pragma once
// The event loop of the live world: steady clock, epoll, the ordering of sim/port/event_loop.h.
//
// now() inside a timer's callback is the time for which it was scheduled, however late the
// processor came to it: a chain of modelled waits does not add up its wake-ups, and what a callback
// schedules is never late. Between timers now() follows the clock, so that what came from a device
// is seen at the time it came. Spins for a moment before it blocks; never busy while idle.
//
// One thread; only wake() may be called from others.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/port/event_loop.h"

namespace kvlane::live {

using SteadyTime = std::chrono::steady_clock::time_point;

// Told that its file descriptor is ready.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void on_ready(int fd, std::uint32_t epoll_events) = 0;
};

// Work that goes on whether or not a descriptor is ready: copies in pieces, devices that are polled
// for a moment. Called once a turn; true: there is more to do now.
class Background {
 public:
  virtual ~Background() = default;
  virtual bool advance() = 0;
};

class WallLoop final : public EventLoop {
 public:
  // `spin`: how long an idle turn looks again before it blocks.
  explicit WallLoop(Duration spin = Duration::zero());
  void set_spin(Duration spin) { spin_ = spin; }
  ~WallLoop() override;

  TimePoint now() const override { return now_; }
  TimerId schedule_at(TimePoint at, Callback callback) override;
  bool cancel(TimerId timer) override;
  // Until stop(), or until no timer is pending and nothing holds the loop.
  void run() override;
  // Ends run() after the current callback.
  void stop() { stopped_ = true; }

  // While held, run() does not end for want of timers.
  void hold() { ++holds_; }
  void release() { --holds_; }

  void watch(int fd, std::uint32_t epoll_events, Pollable& target);
  void change(int fd, std::uint32_t epoll_events);
  // No call of its target follows, not even of the turn at hand.
  void unwatch(int fd);
  void add(Background& work);
  void remove(Background& work);

  // From any thread: the callback runs in the loop.
  void wake(Callback callback);

  // Time zero; now() becomes the distance from it. No timer may be pending. A moment to come is
  // allowed: now() is negative until then.
  void start_clock(SteadyTime zero);
  SteadyTime zero() const { return zero_; }
  TimePoint clock() const;  // of this moment, between turns as within them
  std::size_t timers() const { return times_.size(); }

 private:
  struct Watched {
    Pollable* target = nullptr;
    std::uint32_t generation = 0;
  };
  bool due();
  bool poll(Duration longest);
  void run_woken();

  SteadyTime zero_ = std::chrono::steady_clock::now();
  Duration spin_;
  TimePoint now_{};
  bool stopped_ = false;
  int holds_ = 0;
  int epoll_ = -1, event_ = -1;
  std::uint64_t sequence_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Callback> queue_;
  std::map<std::uint64_t, TimePoint> times_;  // by timer
  std::vector<Watched> watched_;              // by descriptor
  std::vector<Background*> background_;
  std::mutex woken_mutex_;
  std::vector<Callback> woken_;
  std::atomic<bool> wake_sent_{false};
};

}  // namespace kvlane::live
