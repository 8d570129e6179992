// Properties of the fluid network over random networks, flows, cancels, failures and repairs.

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"

namespace kvlane {
namespace {

enum class Priority { all, none, mixed };

// Everything follows from what rapidcheck draws: the sizes shrink, the rest is a named stream.
struct Shape {
  std::uint64_t seed = 0;
  std::uint64_t links = 1, flows = 1, changes = 0;
  Priority priority = Priority::all;
};

Shape draw_shape(Priority priority) {
  Shape shape;
  shape.seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  shape.links = *rc::gen::inRange<std::uint64_t>(1, 9);
  shape.flows = *rc::gen::inRange<std::uint64_t>(1, 40);
  shape.changes = *rc::gen::inRange<std::uint64_t>(0, 12);
  shape.priority = priority;
  return shape;
}

struct Flow {
  std::vector<LinkId> path;
  Bytes bytes{0};
  Lane lane = Lane::control;
  Bandwidth cap = Bandwidth::unlimited();
  FlowId id;
  Bytes passed{0};  // when it ended or was cancelled
  TimePoint end = kNever;
  bool started = false;
};

struct Run {
  explicit Run(const Shape& drawn) : shape(drawn), rng(drawn.seed, "network property") {
    for (std::uint64_t l = 0; l < shape.links; ++l) {
      const bool priority = shape.priority == Priority::all ||
                            (shape.priority == Priority::mixed && rng.below(2) == 0);
      const auto rate =
          Bandwidth::bits_per_sec(static_cast<std::int64_t>(1 + rng.below(50)) * 997'000'003);
      links.push_back(network.add_link("link", rate, priority));
      rates.push_back(rate);
    }
    flows.resize(shape.flows);
    for (std::uint64_t f = 0; f < shape.flows; ++f) {
      Flow& flow = flows[f];
      for (const LinkId link : links) {
        if (rng.below(shape.links) < 2) flow.path.push_back(link);
      }
      if (flow.path.empty()) flow.path.push_back(links[rng.below(shape.links)]);
      flow.bytes = Bytes(static_cast<std::int64_t>(rng.below(20) == 0 ? 0 : rng.below(1'000'000)));
      flow.lane = static_cast<Lane>(rng.below(kLaneCount));
      if (rng.below(4) == 0) {
        flow.cap = Bandwidth::bits_per_sec(
            static_cast<std::int64_t>(1'000'000'000 + rng.below(9'000'000'000)));
      }
      at(rng.below(200'000'000), &Run::start, f);
      if (rng.below(8) == 0) at(rng.below(400'000'000), &Run::cancel, f);
    }
    for (std::uint64_t i = 0; i < shape.changes; ++i) at(rng.below(300'000'000), &Run::change, i);
    at(300'000'000, &Run::repair, 0);  // so that everything ends
  }
  void at(std::uint64_t ps, void (*function)(void*, std::uint64_t), std::uint64_t argument) {
    loop.schedule_at(TimePoint(Duration(static_cast<std::int64_t>(ps))),
                     {function, this, argument});
  }
  static void start(void* self, std::uint64_t f) {
    Run& run = *static_cast<Run*>(self);
    Flow& flow = run.flows[f];
    flow.started = true;
    flow.id =
        run.network.start({flow.path, flow.bytes, flow.lane, flow.cap}, {&Run::ended, self, f});
  }
  static void ended(void* self, std::uint64_t f) {
    Run& run = *static_cast<Run*>(self);
    RC_ASSERT(run.flows[f].end == kNever);
    run.flows[f].end = run.loop.now();
    run.flows[f].passed = run.flows[f].bytes;
  }
  static void cancel(void* self, std::uint64_t f) {
    Run& run = *static_cast<Run*>(self);
    Flow& flow = run.flows[f];
    if (!flow.started || !run.network.active(flow.id)) return;
    flow.passed = run.network.cancel(flow.id);
    RC_ASSERT(flow.passed >= Bytes(0));
    RC_ASSERT(flow.passed <= flow.bytes);
  }
  static void change(void* self, std::uint64_t) {
    Run& run = *static_cast<Run*>(self);
    const std::uint64_t l = run.rng.below(run.shape.links);
    run.network.set_capacity(run.links[l],
                             run.rates[l].scaled(0.25 * static_cast<double>(run.rng.below(6))));
  }
  static void repair(void* self, std::uint64_t) {
    Run& run = *static_cast<Run*>(self);
    for (std::size_t l = 0; l < run.links.size(); ++l)
      run.network.set_capacity(run.links[l], run.rates[l]);
  }

  double rate(const Flow& flow) const {
    return static_cast<double>(network.rate(flow.id).bits_per_sec());
  }

  // At one instant: no link above its rate, and every flow at its cap or at a bottleneck.
  void check_rates() const {
    struct Load {
      double sum = 0, fastest[kLaneCount] = {};
      std::uint64_t flows = 0;
    };
    std::vector<Load> loads(links.size());
    for (const Flow& flow : flows) {
      if (!flow.started || !network.active(flow.id)) continue;
      const double r = rate(flow);
      RC_ASSERT(r >= 0);
      RC_ASSERT(flow.cap.is_unlimited() || r <= static_cast<double>(flow.cap.bits_per_sec()));
      for (const LinkId link : flow.path) {
        Load& load = loads[link.index()];
        load.sum += r;
        load.flows += 1;
        double& fastest = load.fastest[index(flow.lane)];
        fastest = std::max(fastest, r);
      }
    }
    const auto capacity = [&](LinkId link) {
      return static_cast<double>(network.capacity(link).bits_per_sec());
    };
    for (const LinkId link : links) {
      RC_ASSERT(loads[link.index()].sum <= capacity(link) * (1 + 1e-12));
    }
    constexpr double kSlack = 64;  // bit/s: rate() is cut to whole ones
    for (const Flow& flow : flows) {
      if (!flow.started || !network.active(flow.id)) continue;
      const double r = rate(flow);
      if (!flow.cap.is_unlimited() && r >= static_cast<double>(flow.cap.bits_per_sec()) - kSlack)
        continue;
      const bool bottleneck = std::any_of(flow.path.begin(), flow.path.end(), [&](LinkId link) {
        const Load& load = loads[link.index()];
        if (load.sum < capacity(link) - kSlack) return false;
        if (shape.priority == Priority::mixed) return true;  // full: no capacity is wasted
        const bool priority = network.lane_priority(link);
        for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
          const bool same = !priority || lane == index(flow.lane);
          if (same && load.fastest[lane] > r + kSlack) return false;
          if (priority && lane > index(flow.lane) && load.fastest[lane] > kSlack) return false;
        }
        return true;
      });
      RC_ASSERT(bottleneck);
    }
  }

  void finish(bool check_each) {
    TimePoint last{};
    std::uint64_t guard = 0;
    while (loop.run_one()) {
      RC_ASSERT(loop.now() >= last);
      last = loop.now();
      RC_ASSERT(++guard < 100'000);  // no event without progress
      if (check_each) check_rates();
    }
    RC_ASSERT(network.active_flows() == 0U);
  }

  Shape shape;
  Rng rng;
  VirtualLoop loop;
  FluidNetwork network{loop};
  std::vector<LinkId> links;
  std::vector<Bandwidth> rates;
  std::vector<Flow> flows;
};

void check_run(Priority priority) {
  Run run(draw_shape(priority));
  run.finish(true);
  // Bytes sent = bytes received, on every link and lane, to the byte.
  for (const LinkId link : run.links) {
    std::array<Bytes, kLaneCount> sent{};
    for (const Flow& flow : run.flows) {
      if (std::find(flow.path.begin(), flow.path.end(), link) == flow.path.end()) continue;
      sent[index(flow.lane)] += flow.passed;
    }
    const LinkUsage usage = run.network.usage(link);
    RC_ASSERT(usage.bytes == sent);
    RC_ASSERT(usage.share_time <= to_seconds(usage.busy) * (1 + 1e-9));
    RC_ASSERT(usage.busy <= run.loop.now().time_since_epoch());
  }
}

TEST_CASE("rates are max-min fair with strict priority; bytes are conserved") {
  CHECK(rc::check([] { check_run(Priority::all); }));
}

TEST_CASE("rates are max-min fair over all lanes without priority; bytes are conserved") {
  CHECK(rc::check([] { check_run(Priority::none); }));
}

TEST_CASE("links of both kinds: never above the rate, no capacity wasted; bytes are conserved") {
  CHECK(rc::check([] { check_run(Priority::mixed); }));
}

TEST_CASE("two runs are the same") {
  CHECK(rc::check([] {
    const Shape shape = draw_shape(Priority::mixed);
    Run first(shape);
    Run second(shape);
    first.finish(false);
    second.finish(true);  // looking at the rates must not change them
    for (std::size_t f = 0; f < first.flows.size(); ++f) {
      RC_ASSERT(first.flows[f].end == second.flows[f].end);
      RC_ASSERT(first.flows[f].passed == second.flows[f].passed);
    }
    RC_ASSERT(first.loop.now() == second.loop.now());
  }));
}

// Flows on one port; the end of the last.
TimePoint last_byte(std::uint64_t seed, std::uint64_t count, Bandwidth rate) {
  Rng rng(seed, "one port");
  VirtualLoop loop;
  FluidNetwork network(loop);
  const LinkId port = network.add_link("port", rate);
  struct Start {
    FluidNetwork* network;
    LinkId port;
    Bytes bytes;
    Lane lane;
    static void run(void* self, std::uint64_t) {
      const Start& s = *static_cast<Start*>(self);
      s.network->start({{&s.port, 1}, s.bytes, s.lane}, {});
    }
  };
  std::vector<Start> starts(count);
  for (Start& start : starts) {
    start = {&network, port, Bytes(static_cast<std::int64_t>(rng.below(1'000'000))),
             static_cast<Lane>(rng.below(kLaneCount))};
    loop.schedule_at(TimePoint(Duration(static_cast<std::int64_t>(rng.below(1'000'000'000)))),
                     {&Start::run, &start, 0});
  }
  loop.run();
  return loop.now();
}

TEST_CASE("more bandwidth on one shared port never delays the last byte") {
  CHECK(rc::check([] {
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 50);
    const auto rate = *rc::gen::inRange<std::int64_t>(1'000'000'000, 100'000'000'000);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 10'000'000'000);
    const TimePoint slow = last_byte(seed, count, Bandwidth::bits_per_sec(rate));
    const TimePoint fast = last_byte(seed, count, Bandwidth::bits_per_sec(rate + more));
    // Each end is rounded up to a picosecond, and what it frees is free from then on.
    RC_ASSERT(fast <= slow + Duration(static_cast<std::int64_t>(count)));
  }));
}

}  // namespace
}  // namespace kvlane
