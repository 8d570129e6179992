// The order, cancellation and memory of the virtual loop.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "sim/base/rng.h"
#include "sim/des/virtual_loop.h"

namespace kvlane {
namespace {

using namespace literals;

TimePoint at(std::int64_t ps) { return TimePoint(Duration(ps)); }

struct Log {
  VirtualLoop loop;
  std::vector<std::pair<std::int64_t, std::uint64_t>> ran;
  Callback callback(std::uint64_t name) {
    return {[](void* self, std::uint64_t n) {
              auto& log = *static_cast<Log*>(self);
              log.ran.emplace_back(log.loop.now().time_since_epoch().count(), n);
            },
            this, name};
  }
};

TEST_CASE("events run by time, equal times in the order of scheduling") {
  Log log;
  log.loop.schedule_at(at(20), log.callback(1));
  log.loop.schedule_at(at(10), log.callback(2));
  log.loop.schedule_at(at(20), log.callback(3));
  log.loop.schedule_at(at(10), log.callback(4));
  log.loop.run();
  CHECK(log.ran ==
        std::vector<std::pair<std::int64_t, std::uint64_t>>{{10, 2}, {10, 4}, {20, 1}, {20, 3}});
  CHECK(log.loop.executed() == 4);
  CHECK(log.loop.pending() == 0);
}

TEST_CASE("a callback is never run by schedule_at, and what it schedules for now runs last") {
  struct Chain {
    Log log;
    static void run(void* self, std::uint64_t n) {
      auto& chain = *static_cast<Chain*>(self);
      chain.log.loop.schedule_at(chain.log.loop.now(), chain.log.callback(n + 100));
      chain.log.loop.schedule_at(chain.log.loop.now(), chain.log.callback(n + 200));
      chain.log.ran.emplace_back(0, n);
    }
  } chain;
  chain.log.loop.schedule_at(at(5), {&Chain::run, &chain, 1});
  chain.log.loop.schedule_at(at(5), chain.log.callback(2));
  chain.log.loop.run();
  std::vector<std::uint64_t> names;
  for (const auto& [time, name] : chain.log.ran) names.push_back(name);
  CHECK(names == std::vector<std::uint64_t>{1, 2, 101, 201});
}

TEST_CASE("the past is refused") {
  Log log;
  log.loop.schedule_at(at(10), log.callback(1));
  log.loop.run();
  CHECK_THROWS_AS(log.loop.schedule_at(at(9), log.callback(2)), std::logic_error);
}

TEST_CASE("a cancelled event does not run; cancelling twice, or after it ran, says no") {
  Log log;
  const TimerId first = log.loop.schedule_at(at(10), log.callback(1));
  const TimerId second = log.loop.schedule_at(at(11), log.callback(2));
  CHECK(log.loop.cancel(first));
  CHECK_FALSE(log.loop.cancel(first));
  CHECK_FALSE(log.loop.cancel(TimerId{}));
  // The slot of the first is used again: its old name must not reach the new event.
  log.loop.schedule_at(at(12), log.callback(3));
  CHECK_FALSE(log.loop.cancel(first));
  log.loop.run();
  CHECK_FALSE(log.loop.cancel(second));
  CHECK(log.ran == std::vector<std::pair<std::int64_t, std::uint64_t>>{{11, 2}, {12, 3}});
}

TEST_CASE("an exception leaves the loop usable") {
  Log log;
  log.loop.schedule_at(at(1),
                       {[](void*, std::uint64_t) { throw std::runtime_error("x"); }, nullptr, 0});
  log.loop.schedule_at(at(2), log.callback(2));
  CHECK_THROWS_AS(log.loop.run(), std::runtime_error);
  log.loop.run();
  CHECK(log.ran.size() == 1);
  CHECK(log.loop.pending() == 0);
}

// Against a plain list that is sorted by (time, order): random scheduling and cancelling, from
// inside callbacks as well, with many equal times and enough cancelling to force sweeps.
TEST_CASE("random schedules agree with a sorted list") {
  struct Model {
    struct Entry {
      std::int64_t time;
      std::uint64_t name;
      TimerId timer;
    };
    VirtualLoop loop;
    Rng rng{7, "loop"};
    std::vector<Entry> waiting;
    std::uint64_t next = 0;
    std::uint64_t checked = 0;
    void add() {
      const std::int64_t time =
          loop.now().time_since_epoch().count() + static_cast<std::int64_t>(rng.below(50));
      const TimerId timer = loop.schedule_at(TimePoint(Duration(time)), {&Model::run, this, next});
      waiting.push_back({time, next++, timer});
    }
    void act() {
      const std::uint64_t adds = next < 20000 ? rng.below(4) : 0;
      for (std::uint64_t i = 0; i < adds; ++i) add();
      const std::uint64_t drops = rng.below(40) == 0 ? waiting.size() * 3 / 4 : rng.below(2);
      for (std::uint64_t i = 0; i < drops && !waiting.empty(); ++i) {
        const auto victim =
            waiting.begin() + static_cast<std::ptrdiff_t>(rng.below(waiting.size()));
        REQUIRE(loop.cancel(victim->timer));
        waiting.erase(victim);
      }
      REQUIRE(loop.pending() == waiting.size());
    }
    static void run(void* self, std::uint64_t name) {
      auto& m = *static_cast<Model*>(self);
      const auto first =
          std::min_element(m.waiting.begin(), m.waiting.end(), [](const Entry& a, const Entry& b) {
            return std::pair(a.time, a.name) < std::pair(b.time, b.name);
          });
      REQUIRE(first != m.waiting.end());
      REQUIRE(first->name == name);
      REQUIRE(first->time == m.loop.now().time_since_epoch().count());
      m.waiting.erase(first);
      ++m.checked;
      m.act();
    }
  } model;
  while (model.next < 20000) {
    for (int i = 0; i < 300; ++i) model.add();
    model.loop.run();
    REQUIRE(model.waiting.empty());
  }
  CHECK(model.checked > 3000);
}

TEST_CASE("memory is bounded: a timer that is moved a million times leaves no trail") {
  Log log;
  TimerId timer = log.loop.schedule_at(at(1'000'000'000), log.callback(1));
  for (int i = 0; i < 1'000'000; ++i) {
    REQUIRE(log.loop.cancel(timer));
    timer = log.loop.schedule_at(at(1'000'000'000 + i), log.callback(1));
  }
  CHECK(log.loop.pending() == 1);
  log.loop.run();
  CHECK(log.ran.size() == 1);
}

}  // namespace
}  // namespace kvlane
