#pragma once
// The loop of one run on a loop that outlives it: time counts from the run's start, and what the
// run has scheduled is forgotten with it.

#include <map>
#include <memory>

#include "calibrate/live/loop/wall_loop.h"

namespace kvlane::live {

class RunLoop final : public EventLoop {
 public:
  explicit RunLoop(WallLoop& base) : base_(base) {}
  ~RunLoop() override {
    for (const auto& [id, timer] : timers_) base_.cancel(timer->base);
  }

  TimePoint now() const override { return TimePoint(base_.now() - zero_); }
  TimerId schedule_at(TimePoint at, Callback callback) override {
    auto timer = std::make_unique<Timer>(Timer{this, ++sequence_, callback, {}});
    timer->base = base_.schedule_at(zero_ + at.time_since_epoch(), {&fire, timer.get(), 0});
    const TimerId id{timer->id};
    timers_.emplace(id.value, std::move(timer));
    return id;
  }
  bool cancel(TimerId timer) override {
    const auto found = timers_.find(timer.value);
    if (found == timers_.end()) return false;
    base_.cancel(found->second->base);
    timers_.erase(found);
    return true;
  }
  void run() override { base_.run(); }
  // The run's start by the clock of the base, now or later; before anything is scheduled.
  void start_at(TimePoint zero) { zero_ = zero; }
  TimePoint zero() const { return zero_; }

 private:
  struct Timer {
    RunLoop* loop;
    std::uint64_t id;
    Callback callback;
    TimerId base;
  };
  static void fire(void* context, std::uint64_t) {
    const auto& timer = *static_cast<Timer*>(context);
    const Callback callback = timer.callback;
    timer.loop->timers_.erase(timer.id);
    callback();
  }

  WallLoop& base_;
  TimePoint zero_{};
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Timer>> timers_;
};

}  // namespace kvlane::live
