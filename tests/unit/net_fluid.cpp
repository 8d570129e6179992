// Closed forms of the fluid network; times are exact to the picosecond unless said otherwise.

#include <doctest/doctest.h>

#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"

namespace kvlane {
namespace {

using namespace literals;

struct Net {
  VirtualLoop loop;
  FluidNetwork network{loop};
  std::vector<TimePoint> end = std::vector<TimePoint>(64, kNever);
  std::vector<std::uint64_t> order;

  FlowId start(std::uint64_t name, std::vector<LinkId> path, Bytes bytes,
               Lane lane = Lane::proactive, Bandwidth cap = Bandwidth::unlimited()) {
    return network.start({path, bytes, lane, cap}, {[](void* self, std::uint64_t n) {
                                                      auto& net = *static_cast<Net*>(self);
                                                      net.end[n] = net.loop.now();
                                                      net.order.push_back(n);
                                                    },
                                                    this, name});
  }
  Duration took(std::uint64_t name) const { return end[name].time_since_epoch(); }
  // Runs what is before `time`, then sets the clock to it.
  void run_to(Duration time) {
    bool there = false;
    loop.schedule_at(
        TimePoint(time),
        {[](void* flag, std::uint64_t) { *static_cast<bool*>(flag) = true; }, &there, 0});
    while (!there) loop.run_one();
  }
};

TEST_CASE("one flow takes bytes / rate, rounded up") {
  Net net;
  const LinkId link = net.network.add_link("port", 25_Gbps);
  // 1,000,000,000 B * 8 / 25e9 = 0.32 s.
  net.start(0, {link}, Bytes(1'000'000'000));
  net.loop.run();
  CHECK(net.took(0) == 320_ms);
  CHECK(net.network.usage(link).bytes[index(Lane::proactive)] == Bytes(1'000'000'000));
  CHECK(net.network.usage(link).busy == 320_ms);
  CHECK(net.network.usage(link).share_time == doctest::Approx(0.32));
  CHECK(net.network.active_flows() == 0);
}

TEST_CASE("one flow of any size agrees with the integer division of units.h") {
  for (const std::int64_t bytes :
       std::initializer_list<std::int64_t>{1, 2, 3, 7, 4095, 1'000'003, 98'765'432}) {
    for (const std::int64_t rate : std::initializer_list<std::int64_t>{
             300, 1'000'000'007, 24'500'000'000, 25'000'000'000, 400'000'000'000}) {
      Net net;
      const Bandwidth bandwidth = Bandwidth::bits_per_sec(rate);
      net.start(0, {net.network.add_link("port", bandwidth)}, Bytes(bytes));
      net.loop.run();
      CHECK(net.took(0) == serialization_delay(Bytes(bytes), bandwidth));
    }
  }
}

TEST_CASE("two flows with different arrivals") {
  // 8 Gbit/s = 1 byte/ns. A: 3000 B at 0; B: 1000 B at 1000 ns.
  // Until 1000 ns A alone: 2000 B left. Then half each: B ends after 2000 ns, at 3000 ns; A has
  // 1000 B left and runs alone again: ends at 4000 ns.
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  const FlowId a = net.start(0, {link}, Bytes(3000));
  net.run_to(1000_ns);
  const FlowId b = net.start(1, {link}, Bytes(1000));
  CHECK(net.network.rate(a) == 4_Gbps);
  CHECK(net.network.rate(b) == 4_Gbps);
  CHECK(net.network.remaining(a) == Bytes(2000));
  net.loop.run();
  CHECK(net.took(1) == 3000_ns);
  CHECK(net.took(0) == 4000_ns);
  CHECK(net.network.usage(link).busy == 4000_ns);
  CHECK(net.network.usage(link).bytes[index(Lane::proactive)] == Bytes(4000));
}

TEST_CASE("incast of six: the port is the bottleneck, then the uplinks") {
  // Six 32 Gbit/s uplinks into one 24 Gbit/s port: 4 Gbit/s each. Flow i has (i + 1) * 500 B:
  // while k flows are left, 500 B each take 500 * 8 * k / 24 ns. Ends: sum of k = 6, 5, ... :
  // 1000, 1833.33, 2500, 3000, 3333.33, 3500 ns; the last needs no more than 24 Gbit/s.
  Net net;
  const LinkId port = net.network.add_link("port", 24_Gbps);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const LinkId uplink = net.network.add_link("uplink", 32_Gbps);
    net.start(i, {uplink, port}, Bytes(500 * (static_cast<std::int64_t>(i) + 1)));
  }
  net.loop.run();
  CHECK(net.took(0) == 1000_ns);
  CHECK(net.took(1) == Duration(1'833'334));  // rounded up
  // The rate that a flow frees is there from its rounded end on: up to a picosecond late each.
  const auto took_about = [&](std::uint64_t name, std::int64_t ps) {
    return net.took(name) >= Duration(ps) && net.took(name) <= Duration(ps + 2);
  };
  CHECK(took_about(2, 2'500'000));
  CHECK(took_about(3, 3'000'000));
  CHECK(took_about(4, 3'333'333));
  CHECK(took_about(5, 3'500'000));
  CHECK(net.network.usage(port).share_time == doctest::Approx(3500e-9));
}

TEST_CASE("max-min: what one flow cannot use, the others get") {
  // A crosses 2 and 10 Gbit/s, B and C 10 Gbit/s only: A 2, B and C 4 each.
  Net net;
  const LinkId thin = net.network.add_link("thin", 2_Gbps);
  const LinkId port = net.network.add_link("port", 10_Gbps);
  const FlowId a = net.start(0, {thin, port}, Bytes(1'000'000));
  const FlowId b = net.start(1, {port}, Bytes(1'000'000));
  const FlowId c = net.start(2, {port}, Bytes(1'000'000), Lane::proactive, 3_Gbps);
  CHECK(net.network.rate(a) == 2_Gbps);
  CHECK(net.network.rate(c) == 3_Gbps);  // its own cap
  CHECK(net.network.rate(b) == 5_Gbps);
}

TEST_CASE("a cap alone, an unlimited link, and no bytes") {
  Net net;
  const LinkId free = net.network.add_link("free", Bandwidth::unlimited());
  net.start(0, {}, Bytes(1000), Lane::control, 8_Gbps);
  net.start(1, {free}, Bytes(1000));
  net.start(2, {free}, Bytes(0));
  CHECK(net.order.empty());  // never from inside start()
  net.loop.run();
  CHECK(net.took(0) == 1000_ns);
  CHECK(net.took(1) == 0_ns);
  CHECK(net.took(2) == 0_ns);
  CHECK(net.network.usage(free).bytes[index(Lane::proactive)] == Bytes(1000));
}

TEST_CASE("equal ends are called in the order of their start") {
  Net net;
  const LinkId a = net.network.add_link("a", 8_Gbps);
  const LinkId b = net.network.add_link("b", 8_Gbps);
  net.start(3, {b}, Bytes(1000));
  net.start(1, {a}, Bytes(1000));
  net.start(2, {a, b}, Bytes(0));
  net.loop.run();
  CHECK(net.order == std::vector<std::uint64_t>{2, 3, 1});
}

TEST_CASE("degradation, failure and repair") {
  // 8 Gbit/s, 4000 B. 1000 ns at full rate, 1000 ns at a quarter (250 B), 5000 ns down, then full:
  // 2750 B left after 2000 ns, so the end is 2000 + 5000 + 2750 = 9750 ns.
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  const FlowId flow = net.start(0, {link}, Bytes(4000));
  net.run_to(1000_ns);
  net.network.set_capacity(link, 2_Gbps);
  net.run_to(2000_ns);
  net.network.set_capacity(link, 0_Gbps);
  net.run_to(2500_ns);
  CHECK(net.network.rate(flow) == 0_Gbps);
  CHECK(net.network.remaining(flow) == Bytes(2750));
  CHECK(net.loop.pending() == 0);  // it stands still: nothing to wait for
  net.run_to(7000_ns);
  net.network.set_capacity(link, 8_Gbps);
  net.loop.run();
  CHECK(net.took(0) == 9750_ns);
  CHECK(net.network.usage(link).busy == 4750_ns);
  // 1000 ns and 2750 ns at share 1, 1000 ns at share 1 of the degraded capacity.
  CHECK(net.network.usage(link).share_time == doctest::Approx(4750e-9));
}

TEST_CASE("cancel returns what has passed and frees the rate") {
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  const FlowId a = net.start(0, {link}, Bytes(3000));
  net.start(1, {link}, Bytes(1000));
  net.run_to(1000_ns);
  CHECK(net.network.cancel(a) == Bytes(500));
  CHECK_FALSE(net.network.active(a));
  CHECK(net.network.cancel(a) == Bytes(0));
  net.loop.run();
  CHECK(net.end[0] == kNever);
  CHECK(net.took(1) == 1500_ns);
  CHECK(net.network.usage(link).bytes[index(Lane::proactive)] == Bytes(1500));
}

TEST_CASE("a completion may start the next flow, and cancel one that ends at the same instant") {
  struct Chain {
    Net net;
    LinkId link;
    FlowId twin;
    int left = 3;
    static void next(void* self, std::uint64_t) {
      auto& c = *static_cast<Chain*>(self);
      if (c.twin) CHECK(c.net.network.cancel(std::exchange(c.twin, FlowId{})) == Bytes(1000));
      if (--c.left == 0) return;
      const LinkId path[] = {c.link};
      c.net.network.start({path, Bytes(1000)}, {&Chain::next, self, 0});
    }
  } chain;
  chain.link = chain.net.network.add_link("port", 8_Gbps);
  const LinkId path[] = {chain.link};
  chain.net.network.start({path, Bytes(1000)}, {&Chain::next, &chain, 0});
  chain.twin = chain.net.start(1, {chain.link}, Bytes(1000));
  chain.net.loop.run();
  CHECK(chain.left == 0);
  CHECK(chain.net.end[1] == kNever);
  // The pair ends at 2000 ns, the two others follow alone.
  CHECK(chain.net.loop.now().time_since_epoch() == 4000_ns);
}

TEST_CASE("parts that do not touch do not disturb each other") {
  // The flow on `left` must end at the same picosecond however many flows come and go on `right`.
  for (const int flows : {0, 1000}) {
    Net net;
    const LinkId left = net.network.add_link("left", Bandwidth::bits_per_sec(7'777'777'777));
    const LinkId right = net.network.add_link("right", 25_Gbps);
    net.start(0, {left}, Bytes(123'456'789));
    for (int i = 0; i < flows; ++i) {
      net.start(1, {right}, Bytes(100 + i));
      net.run_to(Duration(37 * (i + 1)));
    }
    net.loop.run();
    CHECK(net.took(0) ==
          serialization_delay(Bytes(123'456'789), Bandwidth::bits_per_sec(7'777'777'777)));
  }
}

TEST_CASE("a long busy bundle does not drift") {
  // 200,000 flows of 1 MB, each begun when the one before is half through: the port is always busy,
  // 200 GB in all, so the last ends at 200e9 * 8 / 25e9 = 64 s, give or take rounding up.
  struct Relay {
    Net net;
    LinkId link;
    int left = 100'000;
    static void next(void* self, std::uint64_t) {
      auto& r = *static_cast<Relay*>(self);
      if (r.left-- == 0) return;
      const LinkId path[] = {r.link};
      r.net.network.start({path, Bytes(2'000'000)}, {&Relay::next, self, 0});
    }
  } relay;
  relay.link = relay.net.network.add_link("port", 25_Gbps);
  const LinkId path[] = {relay.link};
  relay.net.network.start({path, Bytes(1'000'000)}, {[](void*, std::uint64_t) {}, nullptr, 0});
  relay.net.network.start({path, Bytes(2'000'000)}, {&Relay::next, &relay, 0});
  relay.net.start(1, {relay.link}, Bytes(20'000'000'000));
  relay.net.loop.run();
  const Duration ideal =
      serialization_delay(Bytes(200'000'000'000 + 2'000'000 + 1'000'000 + 20'000'000'000), 25_Gbps);
  // At most one picosecond of rounding a completion.
  CHECK(relay.net.loop.now().time_since_epoch() >= ideal);
  CHECK(relay.net.loop.now().time_since_epoch() <= ideal + Duration(100'003));
}

TEST_CASE("what is left of a long flow is known to the byte") {
  // 10 GB at 1 GB/s; another flow starts after 5 s, so that the bundle has passed 4e10 bits by
  // then.
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  const FlowId flow = net.start(0, {link}, Bytes(10'000'000'000));
  net.run_to(5_s);
  net.start(1, {link}, Bytes(1000));
  CHECK(net.network.remaining(flow) == Bytes(5'000'000'000));
  net.run_to(5_s + 1000_ns);
  CHECK(net.network.remaining(flow) == Bytes(4'999'999'500));
  CHECK(net.network.cancel(flow) == Bytes(5'000'000'500));
}

TEST_CASE("broken invariants") {
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  CHECK_THROWS_AS(net.start(0, {link}, Bytes(-1)), std::logic_error);
  CHECK_THROWS_AS(net.start(0, {link, link}, Bytes(1)), std::logic_error);
  CHECK_THROWS_AS(net.start(0, {LinkId(7)}, Bytes(1)), std::logic_error);
  CHECK_THROWS_AS(net.network.set_capacity(link, Bandwidth::bits_per_sec(-1)), std::logic_error);
}

}  // namespace
}  // namespace kvlane
