#pragma once
// The event loop of a live world: steady clock, time since the loop was made, the ordering of
// port/event_loop.h. now() stands still inside a callback, as in the simulator, so that
// schedule_at(now()) is never late. Input comes from sources whose file descriptors it polls.

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/port/event_loop.h"

namespace kvlane::test {

// Something with file descriptors.
class LoopSource {
 public:
  virtual ~LoopSource() = default;
  virtual bool in_flight() const = 0;                      // the loop must not end yet
  virtual void watch(std::vector<pollfd>& fds) const = 0;  // appends
  // Moves what can be moved without blocking; posts completions with schedule_at().
  virtual void service() = 0;
};

class WallLoop final : public EventLoop {
 public:
  TimePoint now() const override { return now_; }
  TimerId schedule_at(TimePoint at, Callback callback) override {
    KVLANE_CHECK(at >= now_, "an event in the past");
    const std::uint64_t id = ++sequence_;
    times_.emplace(id, at);
    queue_.emplace(std::pair{at, id}, callback);
    return {id};
  }
  bool cancel(TimerId timer) override {
    const auto found = times_.find(timer.value);
    if (found == times_.end()) return false;
    queue_.erase({found->second, found->first});
    times_.erase(found);
    return true;
  }
  void run() override {
    for (;;) {
      tick();
      bool busy = false;
      for (LoopSource* source : sources_) {
        source->service();
        busy = busy || source->in_flight();
      }
      if (queue_.empty()) {
        if (!busy) return;
        wait(Duration(1'000'000'000));
        continue;
      }
      const auto first = queue_.begin();
      if (const TimePoint at = first->first.first; at > now_) {
        wait(at - now_);
        continue;
      }
      const Callback callback = first->second;
      times_.erase(first->first.second);
      queue_.erase(first);
      callback();
    }
  }
  void add(LoopSource& source) { sources_.push_back(&source); }

 private:
  void tick() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    now_ = std::max(now_, TimePoint(std::chrono::duration_cast<Duration>(elapsed)));
  }
  // Until a descriptor is ready, at most `longest`; below a millisecond it spins.
  void wait(Duration longest) {
    fds_.clear();
    for (const LoopSource* source : sources_) source->watch(fds_);
    const auto milliseconds = static_cast<int>(longest.count() / 1'000'000'000);
    ::poll(fds_.data(), fds_.size(), std::min(milliseconds, 20));
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  TimePoint now_{};
  std::uint64_t sequence_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Callback> queue_;
  std::map<std::uint64_t, TimePoint> times_;  // by timer
  std::vector<LoopSource*> sources_;
  std::vector<pollfd> fds_;
};

}  // namespace kvlane::test
