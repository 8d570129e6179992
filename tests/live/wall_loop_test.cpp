// The wall clock's loop keeps the rules of the event loop, and those of its own.

#include "calibrate/live/loop/wall_loop.h"

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "calibrate/live/loop/run_loop.h"

namespace kvlane::live {
namespace {

using namespace literals;

struct Log {
  WallLoop* loop = nullptr;
  std::vector<std::uint64_t> ran;
  std::vector<TimePoint> at;
  Callback note(std::uint64_t n) {
    return {[](void* self, std::uint64_t i) {
              auto& log = *static_cast<Log*>(self);
              log.ran.push_back(i);
              if (log.loop != nullptr) log.at.push_back(log.loop->now());
            },
            this, n};
  }
};

}  // namespace

TEST_CASE("WallLoop: by time, equal times in the order they were scheduled, cancelled ones never") {
  WallLoop loop;
  Log log{&loop, {}, {}};
  const TimePoint base = loop.now() + 2_ms;
  loop.schedule_at(base + 1_ms, log.note(3));
  loop.schedule_at(base, log.note(1));
  loop.schedule_at(base, log.note(2));
  const TimerId gone = loop.schedule_at(base, log.note(9));
  CHECK(loop.cancel(gone));
  CHECK(!loop.cancel(gone));
  CHECK(log.ran.empty());  // never inside schedule_at
  loop.run();
  CHECK(log.ran == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(log.at[0] >= base);
  CHECK(log.at[2] >= base + 1_ms);
  CHECK_THROWS_AS(loop.schedule_at(loop.now() - 1_ps, log.note(0)), std::logic_error);
}

TEST_CASE("WallLoop: a chain of timers keeps its times, however late the processor comes") {
  WallLoop loop;
  struct Chain {
    WallLoop* loop;
    std::vector<TimePoint> at;
    static void step(void* self, std::uint64_t) {
      auto& chain = *static_cast<Chain*>(self);
      chain.at.push_back(chain.loop->now());
      // Busy for longer than the next wait.
      if (chain.at.size() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (chain.at.size() < 20) chain.loop->schedule_after(100_us, {&step, self, 0});
    }
  } chain{&loop, {}};
  const TimePoint base = loop.now() + 1_ms;
  loop.schedule_at(base, {&Chain::step, &chain, 0});
  loop.run();
  REQUIRE(chain.at.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(chain.at[i] == base + 100_us * static_cast<std::int64_t>(i));
  }
}

TEST_CASE("WallLoop: wakes from other threads, descriptors until they are unwatched") {
  WallLoop loop;
  Log log{&loop, {}, {}};
  struct Event final : Pollable {
    int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int seen = 0;
    WallLoop* loop = nullptr;
    ~Event() override { ::close(fd); }
    void on_ready(int ready, std::uint32_t) override {
      ++seen;
      loop->unwatch(ready);
      loop->stop();
    }
  } event;
  event.loop = &loop;
  loop.watch(event.fd, EPOLLIN, event);
  loop.hold();
  std::thread other([&] {
    for (std::uint64_t i = 0; i < 100; ++i) loop.wake(log.note(i));
    const std::uint64_t one = 1;
    CHECK(::write(event.fd, &one, sizeof one) == sizeof one);
  });
  loop.run();
  other.join();
  loop.release();
  loop.run();  // what was woken and not run yet
  CHECK(event.seen == 1);
  loop.schedule_after(1_ms, log.note(1000));
  loop.run();
  REQUIRE(log.ran.size() == 101);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(log.ran[i] == i);
}

TEST_CASE("RunLoop: time from its start, and nothing of it runs after it") {
  WallLoop loop;
  Log log;
  loop.schedule_after(5_ms, {[](void*, std::uint64_t) {}, nullptr, 0});
  {
    RunLoop run(loop);
    run.start_at(loop.now() + 2_ms);
    run.schedule_at(TimePoint{}, log.note(1));
    const TimerId gone = run.schedule_at(TimePoint(1_ms), log.note(2));
    CHECK(run.cancel(gone));
    CHECK(!run.cancel(gone));
    CHECK(run.now() < TimePoint{});
    run.schedule_at(TimePoint(3600_s), log.note(3));
    loop.schedule_after(
        3_ms, {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
    loop.run();
    CHECK(run.now() >= TimePoint(1_ms));
  }
  loop.run();
  CHECK(log.ran == std::vector<std::uint64_t>{1});
}

}  // namespace kvlane::live
